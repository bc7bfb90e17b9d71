#include "ddl/predict/measured/layer_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ddl/core/error.h"
#include "ddl/predict/least_squares.h"
#include "ddl/predict/measured/curve.h"

namespace ddl {
namespace {

/// For each doubling beyond what was measured: what layers' times per sample were found to move by at most.
constexpr double kForADoubling = 0.1;
/// What is left of what was measured counts for what lies so near, in factors of e of work; and how much the rate by itself counts beside that.
constexpr double kNear = 1, kBelieved = 0.1;
/// Of what sorts of a family are off when they are held out: something that lies next to one that was measured.
constexpr double kLeastShare = 0.1;

double number(const Json& row, const char* field) {
  const auto& value = row.at(field);
  return value.is_null() ? 0 : value.get<double>();
}

}  // namespace

void LayerTable::add(const Json& entry, double factor, bool own) {
  const double second = factor * 1e-6;
  try {
    const auto samples = entry.at("batch").get<std::int64_t>();
    std::vector<const Json*> rows;
    for (const auto& row : entry.at("layers")) rows.push_back(&row);
    // What strategies that split layers leave to a worker of them.
    if (entry.contains("parts"))
      for (const auto& part : entry.at("parts"))
        for (const auto& row : part.at("layers")) rows.push_back(&row);
    for (const auto* each : rows) {
      const auto& row = *each;
      if (!own && row.value("within_others", false)) continue;
      auto& sort = sorts_[row.at("sort").get<std::string>()];
      sort.family = row.at("family").get<std::string>();
      sort.work = {number(row, "flops"), number(row, "elements"), number(row, "parameters"), !row.at("backward_input_us").is_null(), !row.at("backward_weight_us").is_null()};
      auto& point = sort.points[samples];
      const double places = number(row, "count");
      point.samples = static_cast<double>(samples);
      point.places += places;
      point.forward += places * number(row, "forward_us") * second;
      point.backward_input += places * number(row, "backward_input_us") * second;
      point.backward_weight += places * number(row, "backward_weight_us") * second;
      point.squares += places * number(row, "spread") * number(row, "spread");
    }
  } catch (const Json::exception& error) {
    throw Error(Code::corrupt, fmt::format("[machine] compute: {}", error.what()));
  }
}

std::optional<LayerEstimate> LayerTable::of_sort(const std::string& sort, double samples, const std::function<bool(std::int64_t)>& alike) const {
  const auto found = sorts_.find(sort);
  if (found == sorts_.end()) return std::nullopt;
  std::vector<CurvePoint> forward, input, weight, spread;
  const auto& points = found->second.points;
  const bool any = alike && std::any_of(points.begin(), points.end(), [&](const auto& each) { return alike(each.first); });
  for (const auto& [number, point] : points) {
    if (any && !alike(number)) continue;
    const double places = std::max(1.0, point.places);
    forward.push_back({point.samples, point.forward / places});
    input.push_back({point.samples, point.backward_input / places});
    weight.push_back({point.samples, point.backward_weight / places});
    spread.push_back({point.samples, std::sqrt(point.squares / places)});
  }
  LayerEstimate estimate;
  const auto first = along(forward, samples);
  estimate.cost = {first.value, along(input, samples).value, along(weight, samples).value};
  const double nearest = std::clamp(samples, spread.front().size, spread.back().size);
  estimate.extrapolated = first.beyond > 0;
  if (!estimate.extrapolated) {
    estimate.between = std::numeric_limits<double>::infinity();
    for (const auto& point : spread) estimate.between = std::min(estimate.between, std::abs(std::log2(samples / point.size)));
  }
  estimate.uncertainty = along(spread, nearest).value + kForADoubling * first.beyond;
  return estimate;
}

LayerTable::Fitted LayerTable::fitted(const std::string& family, const LayerWork& work, double samples, const std::string& without) const {
  using Row = FitRow<4>;
  const auto terms = [](const LayerWork& of, double count) { return Row{1, count * of.flops, count * of.elements, of.parameters}; };
  const auto far = [](double a, double b) {
    const double log = std::log((a + 1) / (b + 1));
    return log * log;
  };
  // A factor of e in one of them makes it count 0.6 as much; what is far away holds the rest together.
  constexpr double kReach = 2, kLeast = 1e-3;
  struct Part {
    std::vector<Row> rows;         // over what was measured
    std::vector<double> counts;    // how much each does
    std::vector<double> distances; // squared
  };
  Part forward, input, weight;
  Fitted made;
  double nearest = std::numeric_limits<double>::infinity();
  const auto take = [&](Part& part, const Row& row, double seconds, double distance) {
    if (seconds <= 0) return;
    auto& added = part.rows.emplace_back(row);
    for (auto& value : added) value /= seconds;
    part.counts.push_back(kLeast + std::exp(-distance / (2 * kReach * kReach / 4)));
    part.distances.push_back(distance);
    nearest = std::min(nearest, distance);
  };
  for (const auto& [name, sort] : sorts_) {
    if (sort.family != family || name == without) continue;
    for (const auto& [count, point] : sort.points) {
      const double distance = far(sort.work.flops, work.flops) + far(sort.work.elements, work.elements) + far(sort.work.parameters, work.parameters) + far(point.samples, samples);
      const auto row = terms(sort.work, point.samples);
      const double places = std::max(1.0, point.places);
      take(forward, row, point.forward / places, distance);
      if (sort.work.learning_input) take(input, row, point.backward_input / places, distance);
      if (sort.work.trains) take(weight, row, point.backward_weight / places, distance);
    }
  }
  const auto own = terms(work, samples);
  const auto value = [&](const Part& part) {
    if (part.rows.empty()) return 0.0;
    const auto x = non_negative_least_squares(part.rows, part.counts);
    const auto times = [&](const Row& row) { return std::inner_product(row.begin(), row.end(), x.begin(), 0.0); };
    // What is left of those that are near is this one's, too: halves of a layer, which split networks have, are as far from the rate as the whole is.
    double logs = 0, counted = kBelieved;
    for (std::size_t i = 0; i < part.rows.size(); ++i) {
      const double said = times(part.rows[i]);
      if (said <= 0) continue;
      const double counts = std::exp(-part.distances[i] / (2 * kNear * kNear));
      logs -= counts * std::log(said);
      counted += counts;
    }
    return times(own) * std::exp(logs / counted);
  };
  made.any = !forward.rows.empty();
  made.cost = {value(forward), work.learning_input ? value(input) : 0, work.trains ? value(weight) : 0};
  made.nearest = std::sqrt(nearest);
  return made;
}

LayerTable::Judged LayerTable::held_out(const std::string& family) const {
  const auto [place, unknown] = held_out_.try_emplace(family);
  if (!unknown) return place->second;
  double off = 0, distance = 0;
  int judged = 0;
  for (const auto& [name, sort] : sorts_) {
    if (sort.family != family) continue;
    for (const auto& [count, point] : sort.points) {
      const auto found = fitted(family, sort.work, point.samples, name);
      const double measured = (point.forward + point.backward_input + point.backward_weight) / std::max(1.0, point.places);
      if (!found.any || measured <= 0) continue;
      // Of the logarithm, as intervals are: a fit that is ten times too much is as far off as one that is a tenth. A sort that the others say nothing of does not tell what they say of those between them.
      constexpr double kFurthest = 1;
      const double said = found.cost.forward + found.cost.backward();
      off += said > 0 ? std::min(kFurthest, std::abs(std::log(said / measured))) : kFurthest;
      distance += found.nearest;
      ++judged;
    }
  }
  if (judged > 0) place->second = {off / judged, distance / judged};
  return place->second;
}

std::optional<LayerEstimate> LayerTable::of_family(const std::string& family, const LayerWork& work, double samples) const {
  const auto found = fitted(family, work, samples, "");
  if (!found.any) return std::nullopt;
  const auto judged = held_out(family);
  // The nearer, the less it is off; no further than the furthest that was tried, and never as well as what was measured.
  const double share = judged.distance > 0 ? found.nearest / judged.distance : 1;
  return LayerEstimate{.cost = found.cost, .uncertainty = judged.off * std::clamp(share, kLeastShare, 1.0), .fitted = true};
}

}  // namespace ddl
