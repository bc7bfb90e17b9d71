#include "ddl/lab/config_keys.h"

#include <algorithm>
#include <limits>

#include "ddl/core/text.h"
#include "ddl/lab/config_values.h"

namespace ddl {
namespace {

constexpr std::int64_t kMany = 1'000'000'000;

Binding text(std::string name, std::string standard, std::string help, std::string& (*field)(Experiment&)) {
  return {{std::move(name), KeyType::text, std::move(standard), std::move(help), {}},
          [field](Experiment& e, const std::string& value) -> Json { return field(e) = parse_text(value); }};
}

Binding choice(std::string name, std::string help, std::vector<std::string> choices, std::string standard,
               void (*store)(Experiment&, const std::string&)) {
  return {{std::move(name), KeyType::choice, std::move(standard), std::move(help), choices},
          [store, choices](Experiment& e, const std::string& value) -> Json {
            const auto picked = parse_choice(value, choices);
            store(e, picked);
            return picked;
          }};
}

Binding integer(std::string name, std::string standard, std::string help, std::int64_t low, std::int64_t high,
                void (*store)(Experiment&, std::int64_t)) {
  return {{std::move(name), KeyType::integer, std::move(standard), std::move(help), {}},
          [store, low, high](Experiment& e, const std::string& value) -> Json {
            const auto number = parse_integer(value, low, high);
            store(e, number);
            return number;
          }};
}

Binding number(std::string name, std::string standard, std::string help, double low, double high,
               double& (*field)(Experiment&)) {
  return {{std::move(name), KeyType::number, std::move(standard), std::move(help), {}},
          [field, low, high](Experiment& e, const std::string& value) -> Json {
            return field(e) = parse_number(value, low, high);
          }};
}

Binding boolean(std::string name, std::string standard, std::string help, bool& (*field)(Experiment&)) {
  return {{std::move(name), KeyType::boolean, std::move(standard), std::move(help), {}},
          [field](Experiment& e, const std::string& value) -> Json { return field(e) = parse_boolean(value); }};
}

Binding seconds(std::string name, std::string standard, std::string help, Seconds& (*field)(Experiment&)) {
  return {{std::move(name), KeyType::seconds, std::move(standard), std::move(help), {}},
          [field](Experiment& e, const std::string& value) -> Json {
            const auto span = parse_seconds(parse_text(value));
            if (span.value < 0 || span.value > 1e9)
              throw Error(Code::invalid_argument,
                          fmt::format("out of range; got {}, expected a time from 0 to 1e9 s", in_quotes(value)));
            field(e) = span;
            return fmt::format("{}s", span.value);
          }};
}

Binding bytes(std::string name, std::string standard, std::string help, std::int64_t& (*field)(Experiment&)) {
  return {{std::move(name), KeyType::bytes, std::move(standard), std::move(help), {}},
          [field](Experiment& e, const std::string& value) -> Json {
            const auto size = parse_bytes(parse_text(value)).value;
            if (size < 0) throw Error(Code::invalid_argument, fmt::format("out of range; got {}, expected a size of 0 or more", in_quotes(value)));
            return field(e) = size;
          }};
}

Binding spec(std::string name, std::string standard, std::string help, Spec& (*field)(Experiment&)) {
  return {{std::move(name), KeyType::spec, std::move(standard), std::move(help), {}},
          [field](Experiment& e, const std::string& value) -> Json {
            return to_string(field(e) = parse_spec(parse_text(value)));
          }};
}

Binding workers() {
  return {{"workers", KeyType::workers, "1",
           "Workers: a number, or devices as in cpu:2,cuda:1, cpu[threads=2]:2, cpu[slow=2]:1 (half as fast), cuda[index=0]:2 (two that share a GPU) or emulated:v100:8 (timed waits).", {}},
          [](Experiment& e, const std::string& value) -> Json {
            return to_string(e.job.workers = parse_workers(parse_text(value)));
          }};
}

/// Kept as its one spelling, so that the same data set is the same experiment.
Binding dataset() {
  return {{"dataset", KeyType::spec, "fashion-mnist", "Data set to train on, as in translation[to=fr,vocabulary=4000].", {}},
          [](Experiment& e, const std::string& value) -> Json { return e.job.dataset = to_string(parse_spec(parse_text(value))); }};
}

std::vector<Binding> make() {
  using E = Experiment;
  std::vector<Binding> all;
  const auto add = [&](Binding binding) { all.push_back(std::move(binding)); };
  add(spec("model", "lenet", "Network to train.", [](E& e) -> Spec& { return e.job.model; }));
  add(dataset());
  add(text("data", "", "Folder of the data set's files. Without one the usual places are searched.",
           [](E& e) -> std::string& { return e.job.data_folder; }));
  add(boolean("synthetic", "false", "Make the data up in memory: same shapes and classes, learnable.",
              [](E& e) -> bool& { return e.job.synthetic; }));
  add(integer("train_samples", "0", "Training samples of a synthetic data set. 0: as many as the real one has.", 0, kMany,
              [](E& e, std::int64_t v) { e.job.train_samples = v; }));
  add(integer("test_samples", "0", "Test samples of a synthetic data set. 0: as many as the real one has.", 0, kMany,
              [](E& e, std::int64_t v) { e.job.test_samples = v; }));
  add(boolean("shuffle", "true", "Draw a new order of the samples for each epoch.",
              [](E& e) -> bool& { return e.job.shuffle; }));
  add({{"strategy", KeyType::spec, "data", "How the work is divided among the workers. heterogeneous[shares=3/1]: data[shares=3/1].", {}},
       [](E& e, const std::string& value) -> Json { return to_string(e.job.strategy = parse_strategy(parse_text(value))); }});
  add(workers());
  add(text("transport", "shm", "What carries bytes between workers. mpi starts them by mpirun, unless mpirun or srun started ddlbench.",
           [](E& e) -> std::string& { return e.job.transport; }));
  add(text("collective", "auto", "Algorithm of the all-reduce. auto: by size and number of workers.",
           [](E& e) -> std::string& { return e.job.collective; }));
  add(text("bucket", "", "Size of the buckets in which data parallel gradients are exchanged, as 25MiB, or auto: what is fastest in the run's first steps, of strategy data. "
                         "What the strategy says by itself, as data[bucket=6MiB], goes first.",
           [](E& e) -> std::string& { return e.bucket; }));
  add(text("fabric", "", "Test network of several hosts on this machine, for transports tcp and mpi; takes root. As in "
                         "hosts=4,bandwidth=1Gbps,latency=100us.",
           [](E& e) -> std::string& { return e.job.fabric; }));
  add(integer("batch", "64", "Global batch, in samples of all workers together.", 1, kMany,
              [](E& e, std::int64_t v) { e.job.batch = v; }));
  add(choice("precision", "Number format of the computation.", {"fp32", "bf16", "fp16", "tf32", "fp64"}, "fp32",
             [](E& e, const std::string& v) { e.job.precision = v; }));
  add(choice("kernels", "Kernels: ours, or plain ATen as PyTorch users run.", {"fast", "torch"}, "fast",
             [](E& e, const std::string& v) { e.job.kernels = v; }));
  add(choice("graphs", "Forward and backward passes on GPUs as CUDA graphs, one launch each, with our kernels and where strategy and build allow it, which the record says.", {"on", "off"}, "on",
             [](E& e, const std::string& v) { e.job.graphs = v; }));
  add(choice("pin", "Threads that compute on cores of their own: auto, where there are as many and no other run has them, or off.", {"auto", "off"}, "auto",
             [](E& e, const std::string& v) { e.job.pin = v; }));
  add(integer("steps", "0", "Training steps. 0: whole epochs.", 0, kMany * 1000,
              [](E& e, std::int64_t v) { e.job.steps = v; }));
  add(integer("epochs", "1", "Passes over the training set, where steps is not given.", 0, kMany,
              [](E& e, std::int64_t v) { e.job.epochs = v; }));
  add(integer("seed", "1", "Seed of everything that is drawn: weights, order, synthetic data.", 0,
              std::numeric_limits<std::int64_t>::max(),
              [](E& e, std::int64_t v) { e.job.seed = static_cast<std::uint64_t>(v); }));
  add(boolean("evaluate", "true", "Measure accuracy on the test set after each epoch, or after the last step.",
              [](E& e) -> bool& { return e.job.evaluate; }));
  add(spec("optimizer", "sgd", "Rule by which gradients change parameters. As in sgd[nesterov=on] or adamw[beta2=0.98].",
           [](E& e) -> Spec& { return e.job.optimizer; }));
  add(number("learning_rate", "0.05", "Step size of the optimizer.", 0, 1e6, [](E& e) -> double& { return e.job.learning_rate; }));
  add(number("momentum", "0.9", "Momentum of sgd and lars.", 0, 1, [](E& e) -> double& { return e.job.momentum; }));
  add(number("weight_decay", "0", "L2 penalty added to the gradient; in adamw and lamb apart from it.", 0, 1e6,
             [](E& e) -> double& { return e.job.weight_decay; }));
  add(spec("learning_rate_schedule", "constant",
           "How the learning rate moves over the run. constant, cosine (to zero), step[every=30epochs,factor=0.1] or "
           "inverse-sqrt[warmup=4000]; each takes warmup=STEPS or warmup=Nepochs.",
           [](E& e) -> Spec& { return e.job.learning_rate_schedule; }));
  add(integer("accumulate", "1", "Micro-batches that each worker's part of a batch is cut into; their gradients are added up.", 1, 1'000'000,
              [](E& e, std::int64_t v) { e.job.accumulate = v; }));
  add(number("clip", "0", "Largest norm of the gradient of all parameters together. 0: any.", 0, 1e30,
             [](E& e) -> double& { return e.job.clip; }));
  add(boolean("recompute", "false", "Keep few activations, and compute the others again in backward: less memory, more time.",
              [](E& e) -> bool& { return e.job.recompute; }));
  add(number("label_smoothing", "0", "Part of the expected probability that is spread over all classes, or words.", 0, 1,
             [](E& e) -> double& { return e.job.label_smoothing; }));
  add(integer("loader", "1", "Threads that read batches ahead, per worker. 0: read in the step itself.", 0, 1024,
              [](E& e, std::int64_t v) { e.job.loader_threads = static_cast<int>(v); }));
  add(integer("loader_prefetch", "2", "Batches ready ahead, per loader thread.", 1, 1024,
              [](E& e, std::int64_t v) { e.job.loader_prefetch = static_cast<int>(v); }));
  add(choice("trace", "Spans kept in the record: none, of the last 20 steps, or all.", {"off", "recent", "all"}, "recent",
             [](E& e, const std::string& v) {
               e.job.trace = v == "off" ? TraceMode::off : v == "all" ? TraceMode::all : TraceMode::recent;
             }));
  add(seconds("timeout", "0s", "Time limit of the whole run, as in 10min. 0: none.",
              [](E& e) -> Seconds& { return e.job.timeout; }));
  add(seconds("collective_timeout", "60s", "A worker that does not come to a collective for so long is lost.",
              [](E& e) -> Seconds& { return e.job.collective_timeout; }));
  add(bytes("memory_limit", "0B", "Most memory that a worker's plan may hold, as in 4GiB; a plan that holds more is refused. 0: all that its machine has.",
            [](E& e) -> std::int64_t& { return e.job.memory_limit; }));
  add(text("subject", "ddlbench", "Package that is measured.", [](E& e) -> std::string& { return e.subject; }));
  add(text("store", "ddlbench.db", "Results store. none: keep nothing.", [](E& e) -> std::string& { return e.store; }));
  add(integer("repeat", "1", "Runs of the same experiment, one after the other.", 1, 10'000,
              [](E& e, std::int64_t v) { e.repeat = static_cast<int>(v); }));
  return all;
}

}  // namespace

const std::vector<Binding>& bindings() {
  static const std::vector<Binding> all = make();
  return all;
}

const std::vector<Key>& experiment_keys() {
  static const std::vector<Key> keys = [] {
    std::vector<Key> all;
    for (const auto& binding : bindings()) all.push_back(binding.key);
    return all;
  }();
  return keys;
}

const Binding* find_binding(std::string_view name) {
  const auto found = std::find_if(bindings().begin(), bindings().end(), [&](const auto& b) { return b.key.name == name; });
  return found == bindings().end() ? nullptr : &*found;
}

std::string unknown_key(std::string_view name) {
  std::vector<std::string> names;
  for (const auto& key : experiment_keys()) names.push_back(key.name);
  const auto near = did_you_mean(name.substr(0, 80), names);
  return fmt::format("unknown key {}{}", in_quotes(name), near.empty() ? "; expected one of: " + join(names, " ") : near);
}

}  // namespace ddl
