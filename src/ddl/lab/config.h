#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ddl/core/json.h"
#include "ddl/data/dataset.h"
#include "ddl/train/job.h"

namespace ddl {

enum class KeyType : std::uint8_t { text, integer, number, boolean, bytes, seconds, spec, workers, choice };

/// One key of an experiment: the same word in YAML, as a flag (`--learning-rate`) and in the record's `config`.
struct Key {
  std::string name;
  KeyType type = KeyType::text;
  std::string standard;               ///< its default, as a user would write it; "" where there is none
  std::string help;                   ///< with unit; the first sentence is shown by --help
  std::vector<std::string> choices;   ///< of a choice
};

/// All keys, in the order in which --help shows them. A key `learning_rate` is the flag `--learning-rate`.
const std::vector<Key>& experiment_keys();

/// `4` (workers on cpu), `cpu:2,cuda:1` (two on cpu, one on the first CUDA device), `cpu[threads=2]:2,cpu`, `cuda:2` (one on each of the first
/// two), `cuda[index=1]:2` (two that share the second; those without an index are counted on their own),
/// `cpu[slow=2]` (computes half as fast as its processor can),
/// `emulated:v100[slow=2]:8` (eight that wait instead of computing, twice as long as a machine's profile says, by its name or file).
/// Errors: invalid_argument. to_string gives the form that parses back to the same, runs of equal workers joined.
std::vector<WorkerSpec> parse_workers(const std::string& text);
/// A strategy's name and options. `heterogeneous[shares=3/1]`, workers that differ having unequal parts of the batch, is another name of `data[shares=3/1]`. Errors: invalid_argument, where it has no shares.
Spec parse_strategy(const std::string& text);
std::string to_string(const std::vector<WorkerSpec>& workers);

/// A value as it was written, and where: "studies/first.yaml:12:5", "--batch", "--set", "default".
struct Setting {
  std::string value;
  std::string origin;
};
using Settings = std::map<std::string, Setting>;

/// One experiment, resolved: every key has a value of the right type.
struct Experiment {
  Job job;
  std::string subject = "ddlbench";
  std::string bucket;  ///< as an option of the strategy; empty: not said
  std::string store;
  int repeat = 1;
  Json config;       ///< every key with its value, as the record keeps it
  Json provenance;   ///< every key with its origin
  std::string study, name;
};

/// Reads an experiment file: a flat mapping of keys. Errors: invalid_argument as `file:line:column: …` with the nearest
/// known key on an unknown one; not_found.
Settings read_experiment(const std::string& path);

/// `key=value` of --set, or of a flag (origin says which); the value is checked as resolve() does.
/// Replaces what another source set. Errors: invalid_argument naming the origin, the nearest key; also where the same
/// key was set from the command line already (by a flag or another --set).
void set(Settings& settings, const std::string& key, const std::string& value, const std::string& origin);

/// `over` on top of `under`.
Settings merge(Settings under, const Settings& over);

/// Settings over defaults, checked by type and choice, units and specs parsed. `steps` and `epochs` exclude each other:
/// 0 means "not given", both given is an error that names both origins; the one that does not count is null in `config`.
/// Errors: invalid_argument `origin: key: what; got …, expected …`.
Experiment resolve(const Settings& settings);

/// From what a record keeps of it. Errors: those of resolve().
Experiment experiment_from(const Json& config, const Json& provenance);

/// Equal for the same experiment: a hash of the resolved configuration, the build and the data. What cannot change a
/// measurement is left out: store, repeat, trace, the time limits, and what a study calls it.
std::string identity(const Experiment& experiment, const std::string& build, const std::string& dataset_digest);

/// Where the key's value was given, and its name: "studies/first.yaml:12:5: batch"; the name alone for a default.
std::string origin_of(const Experiment& experiment, const std::string& key);

/// Opens its data set. Errors: those of the data set's factory, prefixed with where it was named.
DatasetPair open_data(const Experiment& experiment);

/// What can be known to be wrong before it starts; `samples` of the training set, 0 where they are not known yet.
/// Errors: those of check_job(), prefixed with where the key that is at fault was given.
void check_experiment(const Experiment& experiment, std::int64_t samples);

/// What `identity` takes and a record keeps: the digests of the training and the test set. Opens the data set.
/// Errors: those of its factory, prefixed with where the name was given.
std::string dataset_digest(const Experiment& experiment);

/// A study file:
///
///     study: first
///     base: {dataset: fashion-mnist, batch: 64}      # settings of all its experiments
///     matrix:                                        # every combination of one entry from each list
///       - [{model: lenet, epochs: 10}, {model: resnet18, steps: 40}]
///       - [{workers: 1}, {workers: 2, transport: shm}]
///     exclude: [{model: resnet18, workers: 1}]       # combinations that hold all of these values
///     experiments: [{model: mlp}]                    # single ones, after the matrix
///
/// `overrides` (from --set and flags) win over the file. An experiment's name is its model, its workers and what else
/// tells it from the others: "resnet18, 2 workers, tcp".
/// Errors: invalid_argument as `file:line:column: …`; also for a combination that two lists of the matrix set
/// differently, an exclude that matches nothing, the same experiment twice, and a study without experiments; not_found.
struct Study {
  std::string name;
  std::string digest;   ///< of the expanded, resolved experiments: `resume` compares it
  std::vector<Experiment> experiments;
};
Study read_study(const std::string& path, const Settings& overrides);

}  // namespace ddl
