#include <algorithm>

#include "ddl/predict/closed/terms.h"

namespace ddl {

double averaging_seconds(const std::vector<double>& updates, const std::vector<ExchangeRound>& rounds) {
  // When each bucket's memory is free: after its update, later after its last average.
  std::vector<double> free;
  double computed = 0;
  for (const double seconds : updates) free.push_back(computed += seconds);
  const double updated = computed;
  for (const auto& round : rounds) {
    std::vector<double> there = free;
    for (const auto& way : round.ways) {
      double wire = 0;
      for (std::size_t b = 0; b < way.size(); ++b) there[b] = std::max(there[b], wire = std::max(wire, free[b]) + way[b]);
    }
    for (std::size_t b = 0; b < free.size(); ++b) free[b] = computed = std::max(computed, there[b]) + round.averages[b];
  }
  return computed - updated;
}

}  // namespace ddl
