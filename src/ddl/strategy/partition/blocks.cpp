#include "ddl/strategy/partition/blocks.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>

#include "ddl/strategy/partition/minimax.h"

namespace ddl {

std::vector<int> merging_order(const Intervals& layers, double bandwidth, const std::vector<int>& wanted) {
  std::vector<int> bounds(static_cast<std::size_t>(layers.size()) + 1), order;
  std::iota(bounds.begin(), bounds.end(), 0);
  for (auto left = bounds.size() - 2; left > 0; --left) {
    const bool only_wanted = left <= wanted.size();
    auto least = std::numeric_limits<double>::infinity();
    auto chosen = bounds.end();
    for (auto bound = std::next(bounds.begin()); std::next(bound) != bounds.end(); ++bound) {
      if (!only_wanted && std::binary_search(wanted.begin(), wanted.end(), *bound)) continue;
      const auto worth = layers.seconds(*std::prev(bound), *std::next(bound)) - layers.crossing_bytes(*bound) / bandwidth;
      if (worth >= least && chosen != bounds.end()) continue;
      least = worth;
      chosen = bound;
    }
    order.push_back(*chosen);
    bounds.erase(chosen);
  }
  return order;
}

std::vector<int> wanted_starts(const PartitionInput& input, const Intervals& layers, int stages) {
  std::vector<double> in_flight;
  for (int stage = 0; stage < stages; ++stage) in_flight.push_back(input.in_flight(stage, stages));
  const auto bytes = [&](int place) { return layers.crossing_bytes(place); };
  const auto time = [&](int stage, int first, int last) {
    const auto flying = in_flight[static_cast<std::size_t>(stage)];
    const double seconds = layers.seconds(first, last), never = std::numeric_limits<double>::infinity();
    return StageCost{layers.held_bytes(first, last, flying) > input.memory_limit ? never : seconds,
                     layers.own_bytes(first, last, flying) > input.memory_limit ? never : seconds};
  };
  auto wanted = minimise_largest(layers.size(), stages, time, bytes).starts;
  wanted.erase(wanted.begin());
  return wanted;
}

std::vector<int> starts_of_blocks(const std::vector<int>& order, int blocks) {
  std::vector<int> starts(order.end() - (blocks - 1), order.end());
  starts.push_back(0);
  std::sort(starts.begin(), starts.end());
  return starts;
}

}  // namespace ddl
