#include "ddl/strategy/partition/blocks.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>

namespace ddl {

std::vector<int> merging_order(const Intervals& layers, double bandwidth) {
  std::vector<int> bounds(static_cast<std::size_t>(layers.size()) + 1), order;
  std::iota(bounds.begin(), bounds.end(), 0);
  while (bounds.size() > 2) {
    auto least = std::numeric_limits<double>::infinity();
    auto chosen = std::next(bounds.begin());
    for (auto bound = std::next(bounds.begin()); std::next(bound) != bounds.end(); ++bound) {
      const auto worth = layers.seconds(*std::prev(bound), *std::next(bound)) - layers.crossing_bytes(*bound) / bandwidth;
      if (worth >= least) continue;
      least = worth;
      chosen = bound;
    }
    order.push_back(*chosen);
    bounds.erase(chosen);
  }
  return order;
}

std::vector<int> starts_of_blocks(const std::vector<int>& order, int blocks) {
  std::vector<int> starts(order.end() - (blocks - 1), order.end());
  starts.push_back(0);
  std::sort(starts.begin(), starts.end());
  return starts;
}

}  // namespace ddl
