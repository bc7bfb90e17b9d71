#include "ddl/lab/config.h"

#include <algorithm>
#include <cstdlib>

#include "ddl/core/error.h"
#include "ddl/core/hash.h"
#include "ddl/data/dataset.h"
#include "ddl/lab/config_keys.h"
#include "ddl/lab/config_values.h"
#include "ddl/lab/config_yaml.h"
#include "ddl/nn/found_openblas.h"
#include "ddl/train/plan_job.h"
#include "ddl/train/check_job.h"

namespace ddl {
namespace {

constexpr std::string_view kDefault = "default";

bool from_command_line(const std::string& origin) { return origin.starts_with("--"); }

/// Where a value came from, and its key, unless a flag of that name says both.
std::string place_of(const std::string& origin, const std::string& key) {
  auto flag = "--" + key;
  std::replace(flag.begin(), flag.end(), '_', '-');
  return origin == flag ? origin : origin + ": " + key;
}

Json apply(const Binding& binding, Experiment& experiment, const Setting& setting) {
  try {
    return binding.apply(experiment, setting.value);
  } catch (const Error& error) {
    throw prefixed(place_of(setting.origin, binding.key.name), error);
  }
}

/// Leaves one of steps and epochs, as config.h says.
void settle_length(Experiment& experiment) {
  const auto steps = experiment.job.steps, epochs = experiment.job.epochs;
  const auto origin = [&](const char* key) { return experiment.provenance[key].get<std::string>(); };
  if (steps > 0 && epochs > 0 && origin("epochs") != kDefault)
    throw Error(Code::invalid_argument,
                fmt::format("{}: cannot stand beside epochs; got steps {} and epochs {} (from {}), expected one of "
                            "them (0 takes one back)", place_of(origin("steps"), "steps"), steps, epochs, origin("epochs")));
  if (steps == 0 && epochs == 0)
    throw Error(Code::invalid_argument,
                fmt::format("{}: nothing to do; got epochs 0 and no steps, expected one of them to be positive",
                            place_of(origin("epochs"), "epochs")));
  experiment.config["steps"] = steps > 0 ? Json(steps) : Json();
  experiment.config["epochs"] = steps > 0 ? Json() : Json(epochs);
}

/// Threads of one process are joined by inproc, unless something else is asked for: which check_job() then refuses.
void settle_transport(Experiment& experiment) {
  if (!is_in_process(experiment.job) || experiment.provenance["transport"].get<std::string>() != kDefault) return;
  experiment.job.transport = "inproc";
  experiment.config["transport"] = "inproc";
}

/// What the strategy says by itself goes first.
void settle_bucket(Experiment& experiment) {
  if (experiment.bucket.empty()) return;
  experiment.job.strategy.options.emplace("bucket", experiment.bucket);
  experiment.config["strategy"] = to_string(experiment.job.strategy);
}

}  // namespace

Settings read_experiment(const std::string& path) {
  Settings settings;
  guard_yaml(path, [&] {
    const YamlFile file(path);
    if (file.root().IsMap())
      for (const auto& field : file.fields(file.root(), "experiment"))
        if (field.key == "study" || field.key == "matrix" || field.key == "experiments")
          throw file.error(field.key_node, fmt::format("this is a study (it has '{}'), expected a single experiment; "
                                                       "run it with: ddlbench sweep {}", field.key, path));
    settings = file.settings(file.root(), "experiment");
  });
  return settings;
}

void set(Settings& settings, const std::string& key, const std::string& value, const std::string& origin) {
  const auto* binding = find_binding(key);
  if (binding == nullptr) throw Error(Code::invalid_argument, origin + ": " + unknown_key(key));
  Experiment scratch;
  const Setting setting{value, origin};
  apply(*binding, scratch, setting);
  const auto earlier = settings.find(key);
  if (earlier != settings.end() && from_command_line(origin) && from_command_line(earlier->second.origin))
    throw Error(Code::invalid_argument, fmt::format("{}: {} is given twice; got {} and {} (from {}), expected one", origin, key,
                                                    in_quotes(value), in_quotes(earlier->second.value), earlier->second.origin));
  settings[key] = setting;
}

Settings merge(Settings under, const Settings& over) {
  for (const auto& [key, setting] : over) under[key] = setting;
  return under;
}

Experiment resolve(const Settings& settings) {
  for (const auto& [key, setting] : settings)
    if (find_binding(key) == nullptr) throw Error(Code::invalid_argument, setting.origin + ": " + unknown_key(key));
  Experiment experiment;
  experiment.config = Json::object();
  experiment.provenance = Json::object();
  for (const auto& binding : bindings()) {
    const auto given = settings.find(binding.key.name);
    const Setting setting = given == settings.end() ? Setting{binding.key.standard, std::string(kDefault)} : given->second;
    experiment.config[binding.key.name] = apply(binding, experiment, setting);
    experiment.provenance[binding.key.name] = setting.origin;
  }
  settle_length(experiment);
  settle_transport(experiment);
  settle_bucket(experiment);
  return experiment;
}

Experiment experiment_from(const Json& config, const Json& provenance) {
  Settings settings;
  for (const auto& [key, value] : config.items())
    settings[key] = {value.is_null() ? "0" : value.is_string() ? value.get<std::string>() : value.dump(),
                     provenance.is_object() && provenance.contains(key) ? provenance.at(key).get<std::string>() : std::string("stored configuration")};
  return resolve(settings);
}

std::string identity(const Experiment& experiment, const std::string& build, const std::string& dataset_digest) {
  Json kept = experiment.config;
  for (const auto* key : {"store", "repeat", "trace", "timeout", "collective_timeout", "memory_limit"}) kept.erase(key);
  return digest(Json{{"config", kept}, {"build", build}, {"dataset", dataset_digest}}.dump());
}

std::string origin_of(const Experiment& experiment, const std::string& key) {
  const auto origin = experiment.provenance.is_object() ? experiment.provenance.value(key, "") : "";
  return origin.empty() || origin == kDefault ? key : place_of(origin, key);
}

DatasetPair open_data(const Experiment& experiment) {
  const auto& job = experiment.job;
  try {
    return open_dataset(parse_spec(job.dataset), {job.data_folder, job.synthetic, job.seed, job.train_samples, job.test_samples});
  } catch (const Error& error) {
    throw prefixed(origin_of(experiment, job.data_folder.empty() ? "dataset" : "data"), error);
  }
}

void check_experiment(const Experiment& experiment, std::int64_t samples) {
  // A file that was named is to be one, whoever multiplies here; what is looked for may be missing.
  if (std::getenv("DDLBENCH_OPENBLAS") != nullptr) has_openblas();
  try {
    check_job(experiment.job, dataset_shape(experiment.job.dataset, experiment.job.synthetic), samples);
  } catch (const JobFault& fault) {
    throw prefixed(origin_of(experiment, fault.key()), fault);
  }
}

std::string dataset_digest(const Experiment& experiment) {
  const auto pair = open_data(experiment);
  return pair.train->digest() + pair.test->digest();
}

}  // namespace ddl
