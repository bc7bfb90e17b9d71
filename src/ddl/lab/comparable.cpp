#include "ddl/lab/comparable.h"

#include <map>

#include <fmt/ranges.h>

#include "ddl/core/error.h"

namespace ddl {
namespace {

using Work = std::pair<std::string, std::string>;
/// Where each batch was set.
using Batches = std::map<std::int64_t, const Experiment*>;

/// Two ways that differ in nothing else are told apart by their workers.
std::string name_of(const Experiment& way, const Experiment& other) {
  auto name = fmt::format("{} with {}", way.subject == "ddlbench" ? to_string(way.job.strategy) : way.subject, way.config.at("workers").get<std::string>());
  for (const auto& key : compared_keys())
    if (key != "subject" && key != "strategy" && way.config.at(key) != other.config.at(key)) name += fmt::format(", {} {}", key, way.config.at(key).dump());
  return name;
}

std::vector<std::int64_t> numbers(const Batches& batches) {
  std::vector<std::int64_t> all;
  for (const auto& [batch, experiment] : batches) all.push_back(batch);
  return all;
}

/// The experiment whose batch the other way lacks; null where both have the same.
const Experiment* alone(const Batches& batches, const Batches& other) {
  for (const auto& [batch, experiment] : batches)
    if (!other.contains(batch)) return experiment;
  return nullptr;
}

void require_equal(const Batches& first, const Batches& other) {
  const auto* odd = alone(other, first);
  if (odd == nullptr) odd = alone(first, other);
  if (odd == nullptr) return;
  const auto &one = *first.begin()->second, &two = *other.begin()->second;
  throw Error(Code::invalid_argument,
              fmt::format("{}: what is compared has the same global batch; got {} for {} and {} for {}, of {}; expected one batch, or each at each, or "
                          "--unequal-batch to compare them all the same, as weak scaling does",
                          origin_of(*odd, "batch"), fmt::join(numbers(first), ", "), name_of(one, two), fmt::join(numbers(other), ", "), name_of(two, one),
                          to_string(one.job.model)));
}

}  // namespace

const std::vector<std::string>& compared_keys() {
  static const std::vector<std::string> keys{"subject",   "strategy",  "transport", "collective", "fabric",
                                             "precision", "kernels",   "graphs",    "pin",        "recompute",
                                             "loader",    "loader_prefetch"};
  return keys;
}

void require_equal_batches(const std::vector<Experiment>& experiments) {
  std::map<Work, std::map<std::string, Batches>> works;
  for (const auto& experiment : experiments) {
    auto way = experiment.config.at("workers").dump();
    for (const auto& key : compared_keys()) way += " " + experiment.config.at(key).dump();
    works[{to_string(experiment.job.model), experiment.job.dataset}][way].try_emplace(experiment.job.batch, &experiment);
  }
  for (const auto& [work, ways] : works)
    for (const auto& [way, batches] : ways) require_equal(ways.begin()->second, batches);
}

}  // namespace ddl
