#include "ddl/train/objective.h"

#include <algorithm>
#include <array>
#include <utility>

#include "ddl/nn/element_type.h"
#include "ddl/nn/kernels/pixels.h"
#include "ddl/nn/operators/cross_entropy.h"
#include "ddl/nn/threads.h"

namespace ddl {
namespace {

constexpr std::array kTensors{&BatchPart::images, &BatchPart::labels, &BatchPart::source, &BatchPart::target, &BatchPart::draws};

/// Logits [rows, classes], expected [rows].
struct Rows {
  at::Tensor logits, expected;
  std::int64_t ignored;
};

Rows rows_of(const at::Tensor& logits, const at::Tensor& expected) {
  constexpr std::int64_t kNone = -100;  // labels count from 0
  if (expected.dim() == 1) return {logits, expected, kNone};
  return {logits.flatten(0, 1), expected.flatten(), SampleShape::kPadding};
}

/// Of at least fp32.
at::Tensor wide(const at::Tensor& logits) { return logits.scalar_type() == at::kDouble ? logits : logits.to(at::kFloat); }

at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& expected, double label_smoothing, Kernels kernels) {
  const auto rows = rows_of(logits, expected);
  const auto type = rows.logits.scalar_type();
  if (kernels == Kernels::fast && rows.logits.is_cpu() && (type == at::kFloat || type == at::kBFloat16) && rows.logits.is_contiguous())
    return fast_cross_entropy(rows.logits, rows.expected, rows.ignored, label_smoothing);
  return at::cross_entropy_loss(wide(rows.logits), rows.expected, {}, at::Reduction::Sum, rows.ignored, label_smoothing);
}

/// As the network's layers take them.
at::Tensor images_for(const Network& network, const at::Tensor& images) {
  const auto options = network.tensor_options();
  const bool planes = images.is_cpu() && options.device().is_cpu() && images.scalar_type() == at::kFloat && options.dtype() == images.dtype() && images.is_contiguous() && images.size(1) == 3;
  if (!planes || network.memory_format() != at::MemoryFormat::ChannelsLast) return images.to(options, false, false, network.memory_format());
  auto pixels = at::empty(images.sizes(), options.memory_format(at::MemoryFormat::ChannelsLast));
  const std::int64_t plane = images.size(2) * images.size(3);
  const auto* from = elements<float>(images);
  auto* to = places<float>(pixels);
  share_out(images.size(0), 3 * plane, [&](std::int64_t begin, std::int64_t end) { interleave_three(from + 3 * begin * plane, end - begin, plane, to + 3 * begin * plane); });
  return pixels;
}

}  // namespace

BatchPart part_of(const Batch& batch, const SampleShape& shape, std::int64_t begin, std::int64_t end, const Network& network, const Device& device) {
  const std::int64_t n = end - begin;
  const auto words = [&](const std::vector<std::int64_t>& from, std::int64_t length) { return at::from_blob(const_cast<std::int64_t*>(from.data()) + begin * length, {n, length}, at::kLong); };
  BatchPart part;
  if (shape.channels > 0) part.images = at::from_blob(const_cast<float*>(batch.images.data()) + begin * shape.pixels(), {n, shape.channels, shape.height, shape.width}, at::kFloat);
  part.samples.assign(batch.indices.begin() + begin, batch.indices.begin() + end);
  part.step = batch.step;
  if (shape.objective == Objective::classification) {
    part.labels = at::from_blob(const_cast<std::int64_t*>(batch.labels.data()) + begin, {n}, at::kLong);
  } else {
    if (shape.source_length > 0) part.source = words(batch.source, shape.source_length);
    part.target = words(batch.target, shape.target_length);
  }
  if (!device.is_host()) part.draws = network.draws(part.samples, part.step);
  return part;
}

BatchPart upload(const BatchPart& part, Device& device) {
  auto there = part;
  for (const auto member : kTensors)
    if (auto& tensor = there.*member; tensor.defined()) tensor = device.upload(tensor);
  return there;
}

void refill(BatchPart& to, const BatchPart& from, Device& device) {
  for (const auto member : kTensors)
    if ((to.*member).defined()) device.refill(to.*member, from.*member);
}

std::pair<Moment, Moment> upload_beside(BatchPart& to, const BatchPart& from, Device& device, const Moment& free) {
  std::pair<Moment, Moment> all;
  bool first = true;
  for (const auto member : kTensors) {
    if (!(to.*member).defined()) continue;
    const auto one = device.upload_beside(to.*member, from.*member, free);
    if (std::exchange(first, false)) all.first = one.first;
    all.second = one.second;
  }
  return all;
}

BatchPart as_large_as(const BatchPart& part) {
  BatchPart made;
  for (const auto member : kTensors)
    if ((part.*member).defined()) made.*member = at::empty_like(part.*member);
  return made;
}

void copy(BatchPart& to, const BatchPart& from) {
  for (const auto member : kTensors)
    if ((to.*member).defined()) (to.*member).copy_(from.*member);
}

Example example(const BatchPart& part, const SampleShape& shape, const Network& network) {
  Example made;
  if (part.images.defined()) made.input.images = images_for(network, part.images);
  made.input.samples = part.samples;
  made.input.step = part.step;
  made.input.draws = part.draws;
  made.expected = part.labels;
  if (!part.target.defined()) return made;
  made.input.source = part.source;
  made.input.target = part.target.narrow(1, 0, shape.target_length - 1).contiguous();
  made.expected = part.target.narrow(1, 1, shape.target_length - 1).contiguous();
  return made;
}

Example example(const Batch& batch, const SampleShape& shape, std::int64_t begin, std::int64_t end, Network& network, Device& device) {
  return example(upload(part_of(batch, shape, begin, end, network, device), device), shape, network);
}

at::Tensor loss_sum(const NetworkOutput& output, const at::Tensor& expected, double label_smoothing, Kernels kernels) {
  auto loss = cross_entropy_sum(output.logits, expected, label_smoothing, kernels);
  if (output.auxiliary.defined()) loss = loss + kAuxiliaryWeight * cross_entropy_sum(output.auxiliary, expected, label_smoothing, kernels);
  return loss;
}

void ScoreSum::add(const at::Tensor& logits, const at::Tensor& expected) {
  constexpr std::int64_t kFive = 5;
  auto rows = rows_of(logits, expected);
  rows.logits = wide(rows.logits);
  const auto counted = rows.expected.ne(rows.ignored);
  const auto best = std::get<1>(rows.logits.topk(std::min(kFive, rows.logits.size(1)), 1)).eq(rows.expected.unsqueeze(1));
  const auto sum = [&](const at::Tensor& right) { return right.logical_and(counted).sum(at::kDouble); };
  const auto more = at::stack({counted.sum(at::kDouble), sum(rows.logits.argmax(1).eq(rows.expected)), sum(best.any(1)),
                               at::cross_entropy_loss(rows.logits, rows.expected, {}, at::Reduction::Sum, rows.ignored).to(at::kDouble)});
  sums_ = sums_.defined() ? sums_ + more : more;
}

Scores ScoreSum::total(Device& device) const {
  if (!sums_.defined()) return {};
  const auto sums = fetch(device, sums_);
  const auto* const each = sums.const_data_ptr<double>();
  return {each[0], each[1], each[2], each[3]};
}

}  // namespace ddl
