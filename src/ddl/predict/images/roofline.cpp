#include "ddl/predict/images/roofline.h"

#include <algorithm>
#include <limits>

#include "ddl/predict/datasheet/library.h"

namespace ddl {
namespace {

using Kind = ImageOperator::Kind;

bool is_product(Kind kind) { return kind == Kind::convolution || kind == Kind::convolution_3x3; }

}  // namespace

ImageKernels image_kernels(const Json& kernels, const Gpu& gpu) {
  double reached = 1;
  for (const auto& generation : kernels.at("images").value("generations", Json::array()))
    if (gpu.compute_capability < term_or(generation, "below_capability", std::numeric_limits<double>::infinity())) {
      reached = term(generation, "reached");
      break;
    }
  double full = 0;
  if (const auto late = kernels.at("images").value("full_precision", Json::object()); !late.empty() && gpu.compute_capability >= term(late, "from_capability")) full = term(late, "convolution");
  return {reached * term(kernels, "images.convolution"), reached * term(kernels, "images.convolution_3x3"), std::min(1.0, reached * term(kernels, "images.memory")), term(kernels, "images.update_bytes_per_parameter"), full};
}

ImageRoofline::ImageRoofline(Gpu gpu, const ImageKernels& kernels, double launch, const std::string& precision)
    : gpu_(std::move(gpu)), kernels_(kernels), launch_(launch), bytes_(value_bytes(precision)) {
  // Tensor cores multiply in full.
  if (precision != "fp32") kernels_.convolution_3x3 = kernels_.convolution;
  else if (kernels_.full_convolution > 0) kernels_.convolution = kernels_.convolution_3x3 = kernels_.full_convolution;
}

double ImageRoofline::of_memory(double elements) const { return bytes_ * elements / (gpu_.bandwidth * kernels_.memory); }

double ImageRoofline::forward(const ImageOperator& each) const {
  if (is_product(each.kind)) {
    const double share = each.kind == Kind::convolution_3x3 ? kernels_.convolution_3x3 : kernels_.convolution;
    return std::max(each.flops / (gpu_.peak * share), of_memory(each.read + each.written));
  }
  return of_memory((each.kind == Kind::norm ? 2 : 1) * each.read + each.written);
}

double ImageRoofline::backward(const ImageOperator& each) const {
  switch (each.kind) {
    case Kind::convolution:
    case Kind::convolution_3x3: return 2 * forward(each);
    case Kind::norm: return of_memory(4 * each.read + each.written);
    case Kind::elementwise:
    case Kind::pool: return of_memory(each.read + 2 * each.written);
    case Kind::copy: return of_memory(each.read + each.written);
  }
  return 0;
}

RooflineSums ImageRoofline::sums(const ImageOperators& operators) const {
  RooflineSums out;
  for (const auto& each : operators) {
    out.forward += forward(each);
    out.backward += backward(each);
  }
  out.operators = static_cast<double>(operators.size());
  out.parameters = parameters_of(operators);
  return out;
}

double ImageRoofline::update(double parameters) const { return parameters * kernels_.update_bytes / (gpu_.bandwidth * kernels_.memory); }

double ImageRoofline::step(const ImageOperators& operators, double batch) const {
  const auto all = sums(operators);
  return batch * (all.forward + all.backward) + 3 * all.operators * launch_ + update(all.parameters);
}

}  // namespace ddl
