#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "ddl/core/error.h"
#include "ddl/core/hash.h"
#include "ddl/core/text.h"
#include "ddl/lab/config.h"
#include "ddl/lab/config_keys.h"
#include "ddl/lab/config_values.h"
#include "ddl/lab/config_yaml.h"
#include "ddl/lab/study_names.h"

namespace ddl {
namespace {

constexpr std::size_t kMostExperiments = 10'000;

/// One experiment to be, and where its settings begin.
struct Variant {
  Settings settings;
  std::string where;
};

struct Exclusion {
  Settings settings;
  std::string where;
  bool used = false;
};

class StudyReader {
 public:
  StudyReader(const std::string& path, const Settings& overrides) : path_(path), file_(path), overrides_(overrides) {}

  Study read() {
    find_sections();
    Study study;
    study.name = name();
    if (const auto base = section("base")) base_ = file_.settings(base->value, "base");
    auto variants = matrix();
    read_exclusions();
    std::erase_if(variants, [&](const auto& variant) { return excluded(variant); });
    for (const auto& exclusion : exclusions_)
      if (!exclusion.used && !overridden(exclusion.settings))
        throw Error(Code::invalid_argument, exclusion.where + ": exclude: matches no combination of the matrix");
    add_single(variants);
    if (variants.empty())
      throw Error(Code::invalid_argument, fmt::format("{}: a study without experiments; expected 'matrix' or 'experiments'{}",
                                                      path_, exclusions_.empty() ? "" : " with something left after 'exclude'"));
    for (const auto& variant : variants) {
      study.experiments.push_back(resolve(merge(merge(base_, variant.settings), overrides_)));
      study.experiments.back().study = study.name;
    }
    name_experiments(study.experiments);
    study.digest = refuse_twins(study.experiments, variants);
    return study;
  }

 private:
  void find_sections() {
    static const std::vector<std::string> known{"study", "base", "matrix", "exclude", "experiments"};
    for (auto& field : file_.fields(file_.root(), "study")) {
      if (std::find(known.begin(), known.end(), field.key) == known.end()) {
        const bool experiment_key = find_binding(field.key) != nullptr;
        throw file_.error(field.key_node,
                          fmt::format("unknown part of a study {}{}", in_quotes(field.key),
                                      experiment_key ? "; a key of experiments stands under 'base'"
                                                     : did_you_mean(field.key.substr(0, 80), known) +
                                                           "; expected one of: " + join(known, " ")));
      }
      sections_.push_back(field);
    }
  }

  std::optional<YamlFile::Field> section(std::string_view key) const {
    for (const auto& field : sections_)
      if (field.key == key) return field;
    return std::nullopt;
  }

  std::string name() const {
    const auto field = section("study");
    if (!field) return std::filesystem::path(path_).stem().string();
    const auto text = file_.scalar(field->value, "study");
    try {
      if (trim(text).empty()) throw Error(Code::invalid_argument, "no name; expected a word");
      return parse_text(text);
    } catch (const Error& error) {
      throw prefixed(file_.at(field->value) + ": study", error);
    }
  }

  std::vector<Variant> matrix() const {
    const auto field = section("matrix");
    if (!field) return {};
    std::vector<Variant> all{{}};
    for (const auto& list : file_.elements(field->value, "matrix")) {
      const auto entries = file_.elements(list, "a list of the matrix");
      if (entries.empty()) throw file_.error(list, "matrix: an empty list; expected at least one entry");
      if (all.size() * entries.size() > kMostExperiments)
        throw file_.error(list, fmt::format("matrix: too many combinations; expected at most {}", kMostExperiments));
      std::vector<Settings> settings;
      for (const auto& entry : entries) settings.push_back(file_.settings(entry, "an entry of the matrix"));
      std::vector<Variant> longer;
      for (const auto& variant : all)
        for (std::size_t i = 0; i < entries.size(); ++i) longer.push_back(combine(variant, settings[i], file_.at(entries[i])));
      all = std::move(longer);
    }
    if (all.front().where.empty()) all.clear();  // no list at all
    return all;
  }

  static Variant combine(Variant variant, const Settings& settings, const std::string& where) {
    for (const auto& [key, setting] : settings) {
      const auto [earlier, added] = variant.settings.emplace(key, setting);
      if (!added)
        throw Error(Code::invalid_argument,
                    fmt::format("{}: {} is set in two lists of the matrix; the other is at {}", setting.origin, key,
                                earlier->second.origin));
    }
    if (variant.where.empty()) variant.where = where;
    return variant;
  }

  void read_exclusions() {
    const auto field = section("exclude");
    if (!field) return;
    for (const auto& entry : file_.elements(field->value, "exclude")) {
      exclusions_.push_back({file_.settings(entry, "an entry of exclude"), file_.at(entry)});
      if (exclusions_.back().settings.empty()) throw file_.error(entry, "exclude: an empty entry would exclude everything");
    }
  }

  /// Values are compared by what they mean: `workers: 1` excludes `workers: cpu:1`.
  bool excluded(const Variant& variant) {
    bool any = false;
    const auto settings = merge(merge(base_, variant.settings), overrides_);
    for (auto& exclusion : exclusions_) {
      const bool all = std::all_of(exclusion.settings.begin(), exclusion.settings.end(), [&](const auto& wanted) {
        const auto& binding = *find_binding(wanted.first);
        const auto given = settings.find(wanted.first);
        Experiment scratch;
        return binding.apply(scratch, wanted.second.value) ==
               binding.apply(scratch, given == settings.end() ? binding.key.standard : given->second.value);
      });
      exclusion.used = exclusion.used || all;
      any = any || all;
    }
    return any;
  }

  bool overridden(const Settings& settings) const {
    return std::any_of(settings.begin(), settings.end(), [&](const auto& entry) { return overrides_.contains(entry.first); });
  }

  void add_single(std::vector<Variant>& variants) const {
    const auto field = section("experiments");
    if (!field) return;
    for (const auto& entry : file_.elements(field->value, "experiments"))
      variants.push_back({file_.settings(entry, "an entry of experiments"), file_.at(entry)});
    if (variants.size() > kMostExperiments)
      throw file_.error(field->value, fmt::format("too many experiments; expected at most {}", kMostExperiments));
  }

  static std::string refuse_twins(const std::vector<Experiment>& experiments, const std::vector<Variant>& variants) {
    std::map<std::string, std::size_t> seen;
    Hasher all;
    for (std::size_t i = 0; i < experiments.size(); ++i) {
      const auto same = identity(experiments[i], "", "");
      all.add(same).add(experiments[i].name).add("\n");
      const auto [first, added] = seen.emplace(same, i);
      if (!added)
        throw Error(Code::invalid_argument,
                    fmt::format("{}: the same experiment twice ({}); the other is at {}; repeat: N runs one several times",
                                variants[i].where, experiments[i].name, variants[first->second].where));
    }
    return all.digest();
  }

  std::string path_;
  YamlFile file_;
  const Settings& overrides_;
  std::vector<YamlFile::Field> sections_;
  Settings base_;
  std::vector<Exclusion> exclusions_;
};

}  // namespace

Study read_study(const std::string& path, const Settings& overrides) {
  Study study;
  guard_yaml(path, [&] { study = StudyReader(path, overrides).read(); });
  return study;
}

}  // namespace ddl
