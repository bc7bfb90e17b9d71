#include "ddl/predict/measured/native_seconds.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ddl/collective/bus_factor.h"
#include "ddl/core/error.h"
#include "ddl/predict/machine.h"
#include "ddl/predict/measured/curve.h"

namespace ddl {

double native_seconds(const Json& part, Goal goal, const std::string& word, std::int64_t bytes, int ranks, Portion portion) {
  std::vector<CurvePoint> points;
  for (const auto& each : entries(part, "native"))
    if (each.at("collective") == name(goal) && each.at("algorithm") == word)
      for (const auto& point : each.at("points")) points.push_back({point.at("bytes").get<double>(), point.at("time_us").get<double>() * 1e-6});
  if (points.empty()) {
    const auto transport = part.at("transport").get<std::string>();
    throw Error(Code::not_found, fmt::format("[measured] what {} of algorithm {} between {} ranks over {} takes was not measured; run ddlbench probe comm --transport '{}' --ranks {}{}", name(goal), word, ranks, transport, transport, ranks,
                                             word == "native" ? "" : fmt::format(" --algorithm 'ring,direct,native,{}'", word)));
  }
  std::sort(points.begin(), points.end(), [](const CurvePoint& a, const CurvePoint& b) { return a.size < b.size; });
  const int measured = part.at("ranks").get<int>();
  const double least = points.front().value;
  const double calls = measured > 1 ? std::log2(static_cast<double>(ranks)) / std::log2(static_cast<double>(measured)) : 1;
  if (portion == Portion::latency) return calls * least;
  const double known = bus_factor(goal, measured), moved = known > 0 ? bus_factor(goal, ranks) / known : 1;
  const double more = along(points, static_cast<double>(std::max<std::int64_t>(0, bytes))).value - least;
  // Below the smallest size there is less than its time, not less than none.
  return std::max(0.0, calls * least + moved * more);
}

}  // namespace ddl
