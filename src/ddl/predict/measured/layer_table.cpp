#include "ddl/predict/measured/layer_table.h"

#include <algorithm>
#include <cmath>

#include "ddl/core/error.h"
#include "ddl/predict/least_squares.h"
#include "ddl/predict/measured/curve.h"

namespace ddl {
namespace {

/// For each doubling beyond what was measured: what layers' times per sample were found to move by at most.
constexpr double kForADoubling = 0.1;
/// Where nothing was left to judge a fit by.
constexpr double kUnjudged = 0.5;

double number(const Json& row, const char* field) {
  const auto& value = row.at(field);
  return value.is_null() ? 0 : value.get<double>();
}

}  // namespace

void LayerTable::add(const Json& entry, double factor) {
  const double second = factor * 1e-6;
  try {
    const auto samples = entry.at("batch").get<std::int64_t>();
    for (const auto& row : entry.at("layers")) {
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

std::optional<LayerEstimate> LayerTable::of_sort(const std::string& sort, double samples) const {
  const auto found = sorts_.find(sort);
  if (found == sorts_.end()) return std::nullopt;
  std::vector<CurvePoint> forward, input, weight, spread;
  for (const auto& [number, point] : found->second.points) {
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
    std::vector<Row> rows;
    std::vector<double> weights;
  };
  Part forward, input, weight;
  const auto take = [&](Part& part, const Row& row, double seconds, double counts) {
    if (seconds <= 0) return;
    auto& added = part.rows.emplace_back(row);
    for (auto& value : added) value /= seconds;
    part.weights.push_back(counts);
  };
  for (const auto& [name, sort] : sorts_) {
    if (sort.family != family || name == without) continue;
    for (const auto& [count, point] : sort.points) {
      const double distance = far(sort.work.flops, work.flops) + far(sort.work.elements, work.elements) + far(sort.work.parameters, work.parameters) + far(point.samples, samples);
      const double counts = kLeast + std::exp(-distance / (2 * kReach * kReach / 4));
      const auto row = terms(sort.work, point.samples);
      const double places = std::max(1.0, point.places);
      take(forward, row, point.forward / places, counts);
      if (sort.work.learning_input) take(input, row, point.backward_input / places, counts);
      if (sort.work.trains) take(weight, row, point.backward_weight / places, counts);
    }
  }
  const auto own = terms(work, samples);
  const auto value = [&](const Part& part) {
    if (part.rows.empty()) return 0.0;
    const auto x = non_negative_least_squares(part.rows, part.weights);
    double sum = 0;
    for (std::size_t i = 0; i < own.size(); ++i) sum += own[i] * x[i];
    return sum;
  };
  return {{value(forward), work.learning_input ? value(input) : 0, work.trains ? value(weight) : 0}, !forward.rows.empty()};
}

double LayerTable::held_out(const std::string& family) const {
  const auto [place, unknown] = held_out_.try_emplace(family, kUnjudged);
  if (!unknown) return place->second;
  double sum = 0;
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
      sum += said > 0 ? std::min(kFurthest, std::abs(std::log(said / measured))) : kFurthest;
      ++judged;
    }
  }
  if (judged > 0) place->second = sum / judged;
  return place->second;
}

std::optional<LayerEstimate> LayerTable::of_family(const std::string& family, const LayerWork& work, double samples) const {
  const auto found = fitted(family, work, samples, "");
  if (!found.any) return std::nullopt;
  return LayerEstimate{found.cost, held_out(family), false, true};
}

}  // namespace ddl
