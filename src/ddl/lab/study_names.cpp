#include "ddl/lab/study_names.h"

#include <algorithm>
#include <set>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/lab/comparable.h"

namespace ddl {
namespace {

using Words = std::vector<std::string>;

std::string plural(std::int64_t count, const std::string& word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

std::string readable_key(std::string key) {
  std::replace(key.begin(), key.end(), '_', ' ');
  return key;
}

bool plain_cpu(const Experiment& experiment) {
  return std::all_of(experiment.job.workers.begin(), experiment.job.workers.end(),
                     [](const auto& worker) { return worker.device == "cpu" && worker.threads == 1; });
}

/// What a person would call this setting; empty where it says nothing.
std::string words(const Experiment& experiment, const std::string& key) {
  const auto& value = experiment.config.at(key);
  if (key == "workers")
    return plain_cpu(experiment) ? plural(static_cast<std::int64_t>(experiment.job.workers.size()), "worker")
                                 : value.get<std::string>();
  if (value.is_null()) return "";
  if (key == "steps") return plural(value.get<std::int64_t>(), "step");
  if (key == "epochs") return plural(value.get<std::int64_t>(), "epoch");
  static const std::set<std::string> speak_for_themselves{"model", "dataset", "strategy", "transport", "precision", "subject"};
  if (value.is_boolean()) return (value.get<bool>() ? "" : "no ") + readable_key(key);
  const auto text = value.is_string() ? value.get<std::string>() : value.dump();
  return speak_for_themselves.contains(key) ? text : readable_key(key) + " " + text;
}

bool matters(const Experiment& experiment, const std::string& key) {
  return experiment.job.workers.size() > 1 || (key != "transport" && key != "collective" && key != "fabric" && key != "collective_timeout");
}

bool is_among(const std::vector<std::string>& keys, const std::string& key) { return std::find(keys.begin(), keys.end(), key) != keys.end(); }

/// Said of every experiment where they differ in them, even where other words tell these apart already: a reader compares by them.
const std::vector<std::string>& said_keys() {
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> all = compared_keys();
    all.insert(all.begin() + 1, "dataset");
    all.push_back("batch");
    return all;
  }();
  return keys;
}

std::vector<std::string> naming_order() {
  std::vector<std::string> order{"model", "workers"};
  order.insert(order.end(), said_keys().begin(), said_keys().end());
  for (const auto& key : experiment_keys())
    if (!is_among(order, key.name)) order.push_back(key.name);
  return order;
}

std::size_t distinct(const std::vector<Words>& names) { return std::set<Words>(names.begin(), names.end()).size(); }

void lengthen(std::vector<Words>& names, const std::vector<Experiment>& experiments, const std::string& key, bool all) {
  const bool always = !all && (key == "model" || key == "workers");
  const auto& first = experiments.front().config.at(key);
  const bool varies = std::any_of(experiments.begin(), experiments.end(),
                                  [&](const auto& experiment) { return experiment.config.at(key) != first; });
  if (!always && !varies) return;
  auto longer = names;
  for (std::size_t i = 0; i < experiments.size(); ++i)
    if (all || matters(experiments[i], key))
      if (const auto word = words(experiments[i], key); !word.empty()) longer[i].push_back(word);
  if (always || (!all && is_among(said_keys(), key)) || distinct(longer) > distinct(names)) names = std::move(longer);
}

}  // namespace

void name_experiments(std::vector<Experiment>& experiments) {
  std::vector<Words> names(experiments.size());
  for (const bool all : {false, true})
    for (const auto& key : naming_order()) lengthen(names, experiments, key, all);
  for (std::size_t i = 0; i < experiments.size(); ++i) experiments[i].name = join(names[i], ", ");
}

}  // namespace ddl
