#include "ddl/strategy/choices.h"

#include <algorithm>
#include <utility>

#include "ddl/core/error.h"
#include "ddl/core/units.h"
#include "ddl/strategy/partition/partition.h"
#include "ddl/strategy/pipeline/schedules.h"

namespace ddl {
namespace {

/// Values of one option; "" is its default. What is in order has its neighbours beside it.
ChoiceAxis option_axis(const std::string& option, const std::vector<std::string>& values, bool in_order = false) {
  ChoiceAxis axis{option, {}};
  for (const auto& value : values) axis.values.push_back(value.empty() ? Choice{} : Choice{{{option, value}}});
  if (in_order)
    for (std::size_t i = 0; i < values.size(); ++i) {
      auto& near = axis.near.emplace_back();
      if (i > 0) near.push_back(i - 1);
      if (i + 1 < values.size()) near.push_back(i + 1);
    }
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i].empty()) axis.starts = {i};
  return axis;
}

/// The same of an experiment's key.
ChoiceAxis key_axis(const std::string& key, const std::vector<std::string>& values, bool in_order = false) {
  auto axis = option_axis(key, values, in_order);
  for (auto& value : axis.values) std::swap(value.options, value.keys);
  return axis;
}

std::int64_t local_samples(const ChoiceInput& input, int shares) { return (input.batch + shares - 1) / shares; }

int layers_of(const ModelGraph& graph) {
  return static_cast<int>(std::count_if(graph.layers.begin(), graph.layers.end(), [](const Layer& layer) { return layer.kind != LayerKind::input; }));
}

bool has(const ModelGraph& graph, LayerKind kind) {
  return std::any_of(graph.layers.begin(), graph.layers.end(), [&](const Layer& layer) { return layer.kind == kind; });
}

ChoiceAxis accumulate(const ChoiceInput& input, int shares) {
  std::vector<std::string> values{""};
  for (std::int64_t parts = 2; parts <= std::min<std::int64_t>(64, local_samples(input, shares)); parts *= 2) values.push_back(std::to_string(parts));
  return key_axis("accumulate", values, true);
}

ChoiceAxis recompute() { return key_axis("recompute", {"", "true"}); }

ChoiceAxis collective(const ChoiceInput& input) {
  std::vector<std::string> values{""};
  values.insert(values.end(), input.collectives.begin(), input.collectives.end());
  return key_axis("collective", values);
}

/// Around PyTorch's 25 MiB, up to one that holds all.
ChoiceAxis bucket(const ChoiceInput& input) {
  std::int64_t bytes = 0;
  for (const auto& parameter : input.graph.parameter_specs()) bytes += parameter.elements() * input.element_bytes;
  std::vector<std::string> values;
  bool whole = false;
  for (const std::int64_t mebibytes : {1, 5, 25, 100, 400, 1600, 6400}) {
    if (mebibytes == 25) values.emplace_back();
    else if (!whole && ((mebibytes << 20) < bytes || mebibytes > 25)) values.push_back(fmt::format("{}MiB", mebibytes));
    whole = whole || (mebibytes << 20) >= bytes;
  }
  return option_axis("bucket", values, true);
}

/// Schedules with the numbers of chunks that they take, 1f1b first: the usual one.
ChoiceAxis schedules(const ChoiceInput& input, int places) {
  ChoiceAxis axis{"schedule", {Choice{}}};
  const int layers = layers_of(input.graph);
  for (const auto& entry : builtin_pipeline_schedules().entries()) {
    const auto& name = entry.name;
    const auto& make = entry.make;
    if (name == "1f1b" || (!make.synchronous && !input.changes_results)) continue;
    for (int chunks = make.least_chunks; chunks * places <= layers && chunks <= 4; chunks *= 2) {
      Choice choice{{{"schedule", name}}};
      if (chunks > make.least_chunks) choice.options["chunks"] = std::to_string(chunks);
      axis.values.push_back(std::move(choice));
      if (make.most_chunks != 0 && chunks * 2 > make.most_chunks) break;
    }
  }
  return axis;
}

/// From one micro-batch a stage to sixteen; four are the usual (pipeline_by_options.cpp).
ChoiceAxis micro_batches(const ChoiceInput& input, int places, int shares) {
  const auto local = local_samples(input, shares);
  std::vector<std::string> values;
  for (const int each : {1, 2, 4, 8, 16}) {
    if (each == 4) values.emplace_back();
    else if (std::int64_t{each} * places <= local) values.push_back(std::to_string(each * places));
  }
  return option_axis("micro", values, true);
}

/// Of a mesh, which says how many stages there are: as the usual number goes with it, or so many whatever they are.
ChoiceAxis micro_batches_of_mesh(const ChoiceInput& input) {
  std::vector<std::string> values{""};
  for (std::int64_t each = 4; each <= std::min<std::int64_t>(64, input.batch); each *= 2) values.push_back(std::to_string(each));
  return option_axis("micro", values);
}

/// Where stages are cut. Pipedream's own finds how many workers a stage has, which a mesh says already.
ChoiceAxis balance(bool with_replicas) {
  std::vector<std::string> values{""};
  for (const auto& name : builtin_partitioners().names())
    if (name != "time" && (with_replicas || name != "pipedream")) values.push_back(name);
  return option_axis("balance", values);
}

ChoiceAxis recompute_of_stages() { return option_axis("recompute", {"", "except-last", "always"}, true); }

/// Ways to split layers other than the usual one: along the rows of maps, or with sequences in parts.
ChoiceAxis splits(const ChoiceInput& input) {
  if (has(input.graph, LayerKind::attention)) return option_axis("sequence", {"", "on"});
  return option_axis("split", has(input.graph, LayerKind::conv2d) ? std::vector<std::string>{"", "height"} : std::vector<std::string>{""});
}

std::vector<StrategyFamily> of_single(const ChoiceInput& input) {
  if (input.workers != 1) return {};
  // All others are compared with it: however much memory there is, it is known early.
  auto parts = accumulate(input, 1);
  for (std::size_t value = 1; value < parts.values.size(); ++value) parts.starts.push_back(value);
  return {{{"single", {}}, 1, {std::move(parts), recompute()}}};
}

std::vector<StrategyFamily> of_data(const ChoiceInput& input) {
  if (input.workers == 1) return {};
  std::vector<StrategyFamily> all{{{"data", {}}, input.workers, {bucket(input), option_axis("overlap", {"", "off"}), collective(input), accumulate(input, input.workers), recompute()}}};
  if (!input.compressions.empty()) {
    std::vector<std::string> compressions{""};
    compressions.insert(compressions.end(), input.compressions.begin(), input.compressions.end());
    // Each is another thing: all are looked at before one is gone on from.
    auto axis = option_axis("compress", compressions);
    for (std::size_t value = 1; value < compressions.size(); ++value) axis.starts.push_back(value);
    all.front().axes.push_back(std::move(axis));
  }
  // Replicas within a process have no wire to choose. As torch.nn.DataParallel, or as tf.distribute.MirroredStrategy, which all-reduces.
  if (input.threads)
    for (const char* way : {"mirrored", "parallel"}) {
      ChoiceAxis inproc{"transport", {Choice{{}, {{"transport", "inproc"}}}}};
      all.push_back({{"data", {{"in-process", way}}}, input.workers, {std::move(inproc), bucket(input), option_axis("overlap", {"", "on"}), accumulate(input, input.workers), recompute()}});
    }
  return all;
}

std::vector<StrategyFamily> of_model(const ChoiceInput& input) {
  if (input.workers == 1 || layers_of(input.graph) < input.workers) return {};
  return {{{"model", {}}, input.workers, {balance(false), accumulate(input, 1), option_axis("recompute", {"", "always"})}}};
}

std::vector<StrategyFamily> of_pipeline(const ChoiceInput& input) {
  if (input.workers == 1 || layers_of(input.graph) < input.workers) return {};
  return {{{"pipeline", {}}, input.workers, {schedules(input, input.workers), micro_batches(input, input.workers, 1), balance(true), recompute_of_stages()}}};
}

std::vector<StrategyFamily> of_tensor(const ChoiceInput& input) {
  if (input.workers == 1) return {};
  return {{{"tensor", {}}, input.workers, {splits(input), accumulate(input, 1), option_axis("recompute", {"", "always"}), collective(input)}}};
}

/// Of what optimizers, gradients and parameters are in parts of: the axes of each level.
std::vector<std::pair<std::string, std::vector<ChoiceAxis>>> levels(const ChoiceInput& input) {
  std::vector<std::pair<std::string, std::vector<ChoiceAxis>>> all;
  for (const char* level : {"1", "2"}) all.push_back({level, {bucket(input), option_axis("overlap", {"", "off"}), accumulate(input, input.workers), recompute()}});
  all.push_back({"3", {option_axis("prefetch", {"", "2", "4"}, true), option_axis("reshard", {"", "off"}), option_axis("recompute", {"", "on"}), accumulate(input, input.workers)}});
  return all;
}

std::vector<StrategyFamily> of_sharded(const ChoiceInput& input) {
  if (input.workers == 1) return {};
  std::vector<StrategyFamily> all;
  for (auto& [level, axes] : levels(input)) all.push_back({{"sharded", {{"level", level}}}, input.workers, std::move(axes)});
  return all;
}

std::vector<StrategyFamily> of_hybrid(const ChoiceInput& input) {
  std::vector<StrategyFamily> all;
  const int layers = layers_of(input.graph);
  const auto add = [&](const MeshWish& uses, const MeshWish& needs, std::vector<ChoiceAxis> others, std::map<std::string, std::string> options = {}) {
    auto mesh = mesh_axis(input, uses, needs, layers);
    if (mesh.values.empty()) return;
    others.insert(others.begin(), std::move(mesh));
    others.push_back(collective(input));
    all.push_back({{"hybrid", std::move(options)}, input.workers, std::move(others)});
  };
  // Schedules as of two stages: what is too much for more of them is refused.
  add({.pipeline = true, .sharded = true}, {.pipeline = true, .data = false}, {schedules(input, 2), micro_batches_of_mesh(input), balance(false), recompute_of_stages()});
  add({.tensor = true, .sharded = true}, {.tensor = true, .data = false}, {splits(input), recompute_of_stages(), accumulate(input, 1)});
  add({.pipeline = true, .tensor = true, .sharded = true}, {.pipeline = true, .tensor = true, .data = false},
      {schedules(input, 2), micro_batches_of_mesh(input), splits(input), recompute_of_stages()});
  for (auto& [level, axes] : levels(input)) add({.sharded = true}, {.sharded = true, .data = true}, std::move(axes), {{"level", level}});
  return all;
}

std::vector<StrategyFamily> of_local(const ChoiceInput& input) {
  if (input.workers == 1 || !input.changes_results) return {};
  ChoiceAxis average{"average", {{}, {{{"average", "gossip"}}}, {{{"average", "gossip"}, {"topology", "exponential"}}}}};
  return {{{"local", {}}, input.workers, {option_axis("every", {"4", "", "16", "32"}, true), average, bucket(input), collective(input), accumulate(input, input.workers), recompute()}}};
}

std::vector<StrategyFamily> of_servers(const ChoiceInput& input) {
  if (input.workers == 1) return {};
  std::vector<std::string> servers{""};
  for (int each = 2; each <= std::min(input.workers, 64); each *= 2) servers.push_back(std::to_string(each));
  ChoiceAxis rule{"rule", {Choice{}}};
  if (input.changes_results) {
    rule.values.push_back({{{"async", "on"}}});
    rule.values.push_back({{{"stale", "4"}}});
  }
  return {{{"parameter-server", {}}, input.workers, {option_axis("servers", servers, true), rule, accumulate(input, input.workers), recompute()}}};
}

}  // namespace

double StrategyFamily::size() const {
  double all = 1;
  for (const auto& axis : axes) all *= static_cast<double>(axis.values.size());
  return all;
}

Spec StrategyFamily::spec(const std::vector<std::size_t>& at) const {
  auto spec = base;
  for (std::size_t axis = 0; axis < axes.size(); ++axis)
    for (const auto& [option, value] : axes[axis].values.at(at.at(axis)).options) spec.options[option] = value;
  return spec;
}

std::map<std::string, std::string> StrategyFamily::keys(const std::vector<std::size_t>& at) const {
  std::map<std::string, std::string> keys;
  for (std::size_t axis = 0; axis < axes.size(); ++axis)
    for (const auto& [key, value] : axes[axis].values.at(at.at(axis)).keys) keys[key] = value;
  return keys;
}

Registry<StrategyChoices> strategy_choices() {
  Registry<StrategyChoices> choices("choices of strategy");
  choices.add({"single", "micro-batches, recomputation", of_single});
  choices.add({"data", "buckets, overlap, algorithm, compression, threads of one process, micro-batches, recomputation", of_data});
  choices.add({"model", "where to cut, micro-batches", of_model});
  choices.add({"pipeline", "schedule, chunks, micro-batches, where to cut, recomputation", of_pipeline});
  choices.add({"tensor", "what to split, algorithm, micro-batches, recomputation", of_tensor});
  choices.add({"sharded", "level, buckets, overlap, prefetch, what is kept", of_sharded});
  choices.add({"hybrid", "every mesh, with what its axes choose, and algorithm", of_hybrid});
  choices.add({"local", "how often, and among whom, parameters are averaged, buckets, algorithm, micro-batches, recomputation", of_local});
  choices.add({"parameter-server", "servers, and when gradients are applied", of_servers});
  return choices;
}

std::vector<StrategyFamily> families_of(const ChoiceInput& input) {
  std::vector<StrategyFamily> all;
  for (const auto& entry : strategy_choices().entries())
    for (auto& family : entry.make(input)) {
      const bool of_wires = std::none_of(family.axes.begin(), family.axes.end(), [](const ChoiceAxis& axis) { return axis.name == "transport"; });
      if (family.workers > 1 && of_wires && !input.transports.empty()) {
        std::vector<std::string> transports{""};
        transports.insert(transports.end(), input.transports.begin(), input.transports.end());
        family.axes.push_back(key_axis("transport", transports));
      }
      all.push_back(std::move(family));
    }
  return all;
}

}  // namespace ddl
