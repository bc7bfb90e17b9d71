#include "ddl/predict/measured/native_seconds.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ddl/collective/bus_factor.h"
#include "ddl/core/error.h"
#include "ddl/predict/machine.h"
#include "ddl/predict/measured/curve.h"

namespace ddl {

namespace {

/// Ascending. Of a word that was not timed, what was of `native`: without the meeting before it is not slower.
std::vector<CurvePoint> points_of(const Json& part, Goal goal, const std::string& word) {
  std::vector<CurvePoint> own, usual;
  for (const auto& each : entries(part, "native")) {
    if (each.at("collective") != name(goal)) continue;
    const auto algorithm = each.at("algorithm").get<std::string>();
    for (const auto& point : each.at("points"))
      for (auto* const to : {algorithm == word ? &own : nullptr, algorithm == "native" ? &usual : nullptr})
        if (to != nullptr) to->push_back({point.at("bytes").get<double>(), point.at("time_us").get<double>() * 1e-6});
  }
  auto& points = own.empty() ? usual : own;
  std::sort(points.begin(), points.end(), [](const CurvePoint& a, const CurvePoint& b) { return a.size < b.size; });
  return points;
}

}  // namespace

bool times_native(const Json& part, Goal goal, const std::string& word) { return !points_of(part, goal, word).empty(); }

double native_seconds(const Json& part, Goal goal, const std::string& word, std::int64_t bytes, int ranks, Portion portion) {
  const auto points = points_of(part, goal, word);
  if (points.empty()) {
    const auto transport = part.at("transport").get<std::string>();
    throw Error(Code::not_found, fmt::format("[measured] what {} of algorithm {} between {} ranks over {} takes was not measured; run ddlbench probe comm --transport '{}' --ranks {}", name(goal), word, ranks, transport, transport, ranks));
  }
  const int measured = part.at("ranks").get<int>();
  // Of sizes that were all large, less than the smallest took.
  const double least = std::min(points.front().value, along(points, 0).value);
  const double calls = measured > 1 ? std::log2(static_cast<double>(ranks)) / std::log2(static_cast<double>(measured)) : 1;
  if (portion == Portion::latency) return calls * least;
  const double known = bus_factor(goal, measured), moved = known > 0 ? bus_factor(goal, ranks) / known : 1;
  return calls * least + moved * (along(points, static_cast<double>(std::max<std::int64_t>(0, bytes))).value - least);
}

}  // namespace ddl
