#include "ddl/predict/explain/shapley.h"

#include <bit>
#include <cstddef>

#include "ddl/core/error.h"

namespace ddl {

std::vector<double> shapley_values(int players, const std::vector<double>& worth) {
  if (players < 0 || players > 20 || worth.size() != std::size_t{1} << players)
    throw Error(Code::invalid_argument, fmt::format("[shapley] sets of {} players; got {}, expected 2^players, of at most 20", players, worth.size()));
  std::vector<double> values(static_cast<std::size_t>(players));
  // Of the orders of n players, s! (n - 1 - s)! / n! have just these s before one: 1 / (n C(n - 1, s)).
  std::vector<double> weight;
  double choices = 1;
  for (int before = 0; before < players; ++before) {
    weight.push_back(1 / (players * choices));
    choices *= static_cast<double>(players - 1 - before) / (before + 1);
  }
  for (std::size_t set = 0; set < worth.size(); ++set)
    for (std::size_t player = 0; player < values.size(); ++player)
      if (const auto with = set | (std::size_t{1} << player); with != set) values[player] += weight[static_cast<std::size_t>(std::popcount(set))] * (worth[with] - worth[set]);
  return values;
}

}  // namespace ddl
