#pragma once

#include <vector>

#include "ddl/core/random.h"
#include "ddl/strategy/partition/partition.h"

namespace ddl {

/// Costs of small whole numbers, so that ties are many: an input first and, where there are five or more layers, another between.
inline LayerCosts random_costs(int layers, Random& random) {
  LayerCosts costs;
  costs.network = "random";
  costs.samples = 2;
  for (int number = 0; static_cast<int>(costs.layers.size()) < layers + (layers >= 5 ? 2 : 1); ++number) {
    PartitionLayer layer;
    layer.input = number == 0 || (number == 3 && layers >= 5);
    if (!layer.input) {
      layer.forward = static_cast<double>(random.below(6));
      layer.backward = static_cast<double>(random.below(6));
      layer.flops = static_cast<double>(random.below(10));
      layer.parameter_bytes = static_cast<std::int64_t>(random.below(20));
      layer.frozen_bytes = random.below(3) == 0 ? 7 : 0;
      layer.activation_bytes = static_cast<std::int64_t>(random.below(9));
    }
    costs.layers.push_back(layer);
    Cut cut;
    cut.bytes = number == 0 ? 0 : static_cast<std::int64_t>(random.below(8));
    cut.gradient_bytes = random.below(2) == 0 ? cut.bytes : 0;
    costs.cuts.push_back(cut);
  }
  // The last layer uses a parameter of the first, perhaps by way of one between.
  const auto last = static_cast<int>(costs.layers.size()) - 1;
  if (layers >= 3 && random.below(2) == 0) {
    costs.layers[1].parameter_bytes += 5;
    const bool between = random.below(2) == 0;
    if (between) costs.tied.push_back({{1, 0}, 2, 1, 5, true});
    costs.tied.push_back({{1, 0}, last, between ? 2 : 1, 5, true});
  }
  return costs;
}

/// One stage as it is described, not as sums are kept: layers [first, last) of the costs.
struct NaiveStage {
  double seconds = 0, flops = 0, trained = 0, frozen = 0, kept = 0, received = 0, crossing = 0;

  NaiveStage(const LayerCosts& costs, int first, int last) {
    for (int number = first; number < last; ++number) {
      const auto& layer = costs.layers[static_cast<std::size_t>(number)];
      seconds += layer.forward + layer.backward;
      flops += layer.flops;
      trained += static_cast<double>(layer.parameter_bytes);
      frozen += static_cast<double>(layer.frozen_bytes);
      kept += static_cast<double>(layer.activation_bytes);
    }
    // All uses here are of one parameter, which counts once in a stage without its owner.
    for (const auto& use : costs.tied)
      if (use.parameter.layer < first && first <= use.layer && use.layer < last) {
        trained += static_cast<double>(use.bytes);
        break;
      }
    const auto& cut = costs.cuts[static_cast<std::size_t>(first)];
    received = first == 0 ? 0 : static_cast<double>(cut.bytes);
    crossing = first == 0 ? 0 : static_cast<double>(costs.samples * (cut.bytes + cut.gradient_bytes));
  }

  double bytes(const LayerCosts& costs, double in_flight) const {
    return costs.tensors * trained + frozen + in_flight * static_cast<double>(costs.samples) * (kept + received);
  }
};

/// Every way to begin `stages` stages at layers that are not inputs, the first at 0.
inline std::vector<std::vector<int>> all_cuts(const LayerCosts& costs, int stages) {
  std::vector<int> places;
  for (std::size_t number = 0; number < costs.layers.size(); ++number)
    if (!costs.layers[number].input) places.push_back(static_cast<int>(number));
  std::vector<std::vector<int>> all;
  for (unsigned chosen = 0; chosen < 1U << (places.size() - 1); ++chosen) {
    std::vector<int> cuts{0};
    for (std::size_t place = 1; place < places.size(); ++place)
      if ((chosen >> (place - 1) & 1U) != 0) cuts.push_back(places[place]);
    if (static_cast<int>(cuts.size()) == stages) all.push_back(cuts);
  }
  return all;
}

/// Every way to write `sum` as `parts` numbers of at least 1.
inline std::vector<std::vector<int>> compositions(int sum, int parts) {
  if (parts == 1) return {{sum}};
  std::vector<std::vector<int>> all;
  for (int first = 1; first <= sum - parts + 1; ++first)
    for (auto rest : compositions(sum - first, parts - 1)) {
      rest.insert(rest.begin(), first);
      all.push_back(rest);
    }
  return all;
}

}  // namespace ddl
