#include "ddl/predict/fit_curve.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ddl {
namespace {

constexpr std::size_t kEnd = std::numeric_limits<std::size_t>::max();

/// Up to here a buffer takes what it takes to meet, and what a single size says is shared by rounds and bytes.
constexpr double kMeets = 16 << 10;

/// Costs of a piece whose schedule takes `start` and, for each byte of the buffer, `slope`; `like`: its counts on a buffer of `bytes`.
UnitCosts unit_costs(double start, double slope, const Counts& like, double bytes) {
  UnitCosts costs;
  if (like.rounds > 0) costs.alpha = start / like.rounds;
  const auto share = [&](double counted) { return slope * bytes / counted; };
  if (like.bytes > 0) costs.beta = share(like.bytes);
  else if (like.handled > 0) costs.copy = share(like.handled);
  else if (like.local > 0) costs.local = share(like.local);
  return costs;
}

/// Of one size alone.
UnitCosts of_one(const CurveSample& only) {
  const auto bytes = static_cast<double>(only.bytes);
  const double start = bytes < kMeets ? only.seconds / 2 : 0;
  return unit_costs(start, (only.seconds - start) / bytes, only.counts, bytes);
}

}  // namespace

WireCost fit_curve(const std::vector<CurveSample>& samples) {
  WireCost cost;
  if (samples.size() == 1) {
    cost.pieces.push_back({0, kEnd, of_one(samples.front())});
    return cost;
  }
  for (std::size_t i = 0; i + 1 < samples.size(); ++i) {
    const auto &here = samples[i], &next = samples[i + 1];
    const bool first = i == 0, last = i + 2 == samples.size();
    const auto low = static_cast<double>(here.bytes), high = static_cast<double>(next.bytes);
    const double slope = std::max(0.0, (next.seconds - here.seconds) / (high - low)), start = here.seconds - slope * low;
    if (start >= 0) {
      // Of noise that makes more bytes cheaper: as much as the later says, from halfway on.
      if (slope == 0) {
        const auto middle = static_cast<std::size_t>(std::sqrt(low * high));
        cost.pieces.push_back({first ? 0 : here.bytes, middle, unit_costs(here.seconds, 0, here.counts, low)});
        cost.pieces.push_back({middle, next.bytes, unit_costs(next.seconds, 0, next.counts, high)});
      } else {
        cost.pieces.push_back({first ? 0 : here.bytes, next.bytes, unit_costs(start, slope, next.counts, high)});
      }
    } else {
      const double power = std::log(next.seconds / here.seconds) / std::log(high / low);
      const int parts = std::max(1, static_cast<int>(std::ceil(2 * std::log2(high / low))));
      if (first) cost.pieces.push_back({0, here.bytes, unit_costs(low < kMeets ? here.seconds : 0, low < kMeets ? 0 : here.seconds / low, here.counts, low)});
      // Around sizes of a factor of root two, the first and the last of which were measured.
      const auto between = [&](double number) { return low * std::pow(high / low, std::clamp(number / parts, 0.0, 1.0)); };
      for (int part = 0; part <= parts; ++part)
        cost.pieces.push_back({part == 0 ? here.bytes : cost.pieces.back().to, part == parts ? next.bytes : static_cast<std::size_t>(between(part + 0.5)), unit_costs(0, here.seconds * std::pow(between(part) / low, power) / between(part), next.counts, high)});
    }
    if (!last) continue;
    // On from the largest: by the line there, or in proportion to its bytes, which they count for there.
    if (start >= 0 && slope > 0) cost.pieces.back().to = kEnd;
    else cost.pieces.push_back({next.bytes, kEnd, unit_costs(0, next.seconds / high, next.counts, high)});
  }
  return cost;
}

}  // namespace ddl
