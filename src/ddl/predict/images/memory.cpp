#include "ddl/predict/images/memory.h"

#include <algorithm>

#include "ddl/predict/datasheet/library.h"

namespace ddl {
namespace {

using Kind = ImageOperator::Kind;

double kept_of(const ImageOperator& each) {
  if (each.kept >= 0) return each.kept;
  switch (each.kind) {
    case Kind::convolution:
    case Kind::convolution_3x3:
    case Kind::norm:
    case Kind::pool: return each.read;
    case Kind::elementwise:
    case Kind::copy: return 0;
  }
  return 0;
}

}  // namespace

ImageMemoryTerms image_memory_terms(const Json& kernels, const Json& stack, const std::string& model) {
  ImageMemoryTerms out{term(kernels, "images.memory_terms.state_bytes_per_parameter"), term(kernels, "images.memory_terms.kept_overhead"), term(kernels, "images.memory_terms.activations_made"),
                       term(kernels, "images.memory_terms.weights_made"), term(kernels, "images.memory_terms.context_bytes")};
  const auto& images = stack.at("images");
  if (const auto own = images.find("state_bytes_per_parameter"); own != images.end())
    for (const auto& [name, bytes] : own->items())
      if (model.starts_with(name)) out.state_bytes = bytes.get<double>();
  return out;
}

double kept_of(const ImageOperators& operators) {
  double sum = 0;
  for (const auto& each : operators) sum += kept_of(each);
  return sum;
}

double image_memory(const ImagePart& part, const ImageMemoryTerms& terms) {
  double value = 0, weight = 0;
  for (const auto& each : part.operators) {
    value = std::max({value, each.read, each.written});
    for (const double tensor : each.parameters) weight = std::max(weight, tensor);
  }
  constexpr double kParameter = 4;
  return terms.state_bytes * parameters_of(part.operators) + part.value_bytes * (terms.overhead * part.samples * kept_of(part.operators) + part.given + terms.activations_made * part.samples * value) +
         kParameter * terms.weights_made * weight;
}

}  // namespace ddl
