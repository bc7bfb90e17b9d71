#include "ddl/strategy/partition/intervals.h"

#include "ddl/core/at.h"
#include "ddl/core/error.h"

namespace ddl {
namespace {

template <typename Value>
std::vector<double> sums(const std::vector<PartitionLayer>& layers, Value value) {
  std::vector<double> sums{0};
  for (const auto& layer : layers) sums.push_back(sums.back() + static_cast<double>(value(layer)));
  return sums;
}

}  // namespace

Intervals::Intervals(const LayerCosts& costs)
    : costs_(costs),
      seconds_(sums(costs.layers, [](const PartitionLayer& layer) { return layer.forward + layer.backward; })),
      flops_(sums(costs.layers, [](const PartitionLayer& layer) { return layer.flops; })),
      trained_(sums(costs.layers, [](const PartitionLayer& layer) { return layer.parameter_bytes; })),
      frozen_(sums(costs.layers, [](const PartitionLayer& layer) { return layer.frozen_bytes; })),
      kept_(sums(costs.layers, [](const PartitionLayer& layer) { return layer.activation_bytes; })) {
  const auto count = static_cast<int>(costs.layers.size());
  for (int number = 0; number < count; ++number)
    if (!costs.layers[at(number)].input) layers_.push_back(number);
  layers_.push_back(count);
  // The first stage begins with the network, whatever inputs come first.
  if (layers_.size() > 1) layers_.front() = 0;
}

double Intervals::tied(int first, int last, bool trainable) const {
  const int from = layer(first), to = layer(last);
  double bytes = 0;
  for (const auto& use : costs_.tied)
    if (use.trainable == trainable && from <= use.layer && use.layer < to && use.before < from) bytes += static_cast<double>(use.bytes);
  return bytes;
}

double Intervals::own_bytes(int first, int last, double in_flight) const {
  const auto frozen = over(frozen_, first, last) + tied(first, last, false);
  return costs_.tensors * trained_bytes(first, last) + frozen + in_flight * static_cast<double>(costs_.samples) * over(kept_, first, last);
}

double Intervals::held_bytes(int first, int last, double in_flight) const {
  const auto received = first == 0 ? 0 : static_cast<double>(costs_.cuts[at(layer(first))].bytes);
  return own_bytes(first, last, in_flight) + in_flight * static_cast<double>(costs_.samples) * received;
}

double Intervals::crossing_bytes(int place) const {
  const auto& cut = costs_.cuts[at(layer(place))];
  return place == 0 ? 0 : static_cast<double>(costs_.samples) * static_cast<double>(cut.bytes + cut.gradient_bytes);
}

void Intervals::keep(const std::vector<int>& starts) {
  std::vector<int> kept;
  for (const int start : starts) kept.push_back(layer(start));
  kept.push_back(layers_.back());
  layers_ = std::move(kept);
}

Partition Intervals::partition(const std::vector<int>& starts, double largest) const {
  Partition made;
  for (const int start : starts) made.cuts.push_back(layer(start));
  made.replicas.assign(starts.size(), 1);
  made.largest = largest;
  return made;
}

void require_stages(const PartitionInput& input, int layers) {
  if (input.stages < 1 || input.stages > layers)
    throw Error(Code::invalid_argument, fmt::format("[partition] a stage of {} holds one of its {} layers or more (inputs not counted); got {} "
                                                    "stages, expected 1 to {}", input.costs.network, layers, input.stages, layers));
}

}  // namespace ddl
