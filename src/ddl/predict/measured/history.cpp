#include "ddl/predict/measured/history.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ddl/core/statistics.h"

namespace ddl {
namespace {

constexpr std::size_t kMost = 9;
constexpr const char* kHistory = "history";

std::vector<double> values(const Json& entry, const char* key) {
  std::vector<double> all;
  if (const auto found = entry.find(kHistory); found != entry.end())
    for (const auto& each : *found) all.push_back(each.at(key).get<double>());
  if (all.empty()) all.push_back(entry.at(key).get<double>());
  return all;
}

}  // namespace

void remember(Json& entry, const Json& earlier, const char* key, const std::string& build) {
  auto history = Json::array();
  const auto before = earlier.is_object() ? earlier.value(kHistory, Json()) : Json();
  // What is damaged is not kept.
  if (before.is_array())
    for (const auto& each : before)
      if (each.is_object() && each.value("build", Json()) == build && each.value(key, Json()).is_number()) history.push_back(each);
  history.push_back({{"measured", entry.value("measured", "")}, {"build", build}, {key, entry.at(key)}});
  while (history.size() > kMost) history.erase(history.begin());
  entry[kHistory] = std::move(history);
}

void remember_all(Json& entry, const Json& other) {
  if (!entry.contains(kHistory) || !other.contains(kHistory)) return;
  auto& own = entry[kHistory];
  if (own.empty()) return;
  // Of another build's code nothing counts (remember()).
  const auto build = own.back().value("build", "");
  auto both = Json::array();
  for (const Json* history : {static_cast<const Json*>(&own), &other[kHistory]})
    for (const auto& each : *history)
      if (each.value("build", "") == build && std::find(both.begin(), both.end(), each) == both.end()) both.push_back(each);
  std::stable_sort(both.begin(), both.end(), [](const Json& a, const Json& b) { return a.value("measured", "") < b.value("measured", ""); });
  if (both.size() > kMost) both.erase(both.begin(), both.end() - kMost);
  own = std::move(both);
}

void keep_parts(Json& entry, const Json& earlier) {
  const auto build = [](const Json& of) {
    const auto history = of.is_object() ? of.value(kHistory, Json()) : Json();
    return history.is_array() && !history.empty() && history.back().is_object() ? history.back().value("build", Json()) : Json();
  };
  const auto passes = [](const Json& of) { return of.is_object() && of.value("pass_ms", Json()).is_number() ? of["pass_ms"].get<double>() : 0.0; };
  const double before = passes(earlier), now = passes(entry);
  // What is damaged is not kept.
  if (before > 0 && !(earlier.value("parts", Json::array()).is_array() && entry.value("parts", Json::array()).is_array())) return;
  if (before <= 0 || now <= 0 || build(entry).is_null() || build(entry) != build(earlier)) return;
  auto parts = entry.value("parts", Json::array());
  const auto known = [&](const Json& part) {
    return std::any_of(parts.begin(), parts.end(), [&](const Json& own) { return own.value("strategy", Json()) == part.value("strategy", Json()) && own.value("workers", Json()) == part.value("workers", Json()); });
  };
  for (auto part : earlier.value("parts", Json::array())) {
    if (!part.is_object() || !part.value("layers", Json()).is_array() || known(part)) continue;
    for (auto& layer : part["layers"])
      for (const auto* key : {"forward_us", "backward_input_us", "backward_weight_us"})
        if (layer.is_object() && layer.contains(key) && layer[key].is_number()) layer[key] = layer[key].get<double>() * now / before;
    if (part.value("pass_ms", Json()).is_number()) part["pass_ms"] = part["pass_ms"].get<double>() * now / before;
    parts.push_back(std::move(part));
  }
  if (!parts.empty()) entry["parts"] = std::move(parts);
}

double usual(const Json& entry, const char* key) { return median(values(entry, key)); }

void Drift::add(const Json& entry, const char* key) { add(values(entry, key)); }

void Drift::add(const std::vector<double>& measured) {
  std::vector<double> logs;
  for (const double each : measured)
    if (each > 0) logs.push_back(std::log(each));
  if (logs.size() < 2) return;
  const double middle = mean(logs);
  for (const double each : logs) squares_ += (each - middle) * (each - middle);
  free_ += static_cast<int>(logs.size()) - 1;
  most_ = std::max(most_, logs.size());
}

double Drift::sigma() const { return free_ > 0 ? std::sqrt(squares_ / free_) : 0; }

double Drift::ahead() const { return most_ > 0 ? sigma() * std::sqrt(1 + 1 / static_cast<double>(most_)) : 0; }

}  // namespace ddl
