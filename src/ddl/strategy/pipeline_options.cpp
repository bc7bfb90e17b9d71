#include "ddl/strategy/pipeline_options.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include <fmt/ranges.h>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/core/units.h"
#include "ddl/strategy/common.h"
#include "ddl/strategy/value_widths.h"

namespace ddl {
namespace {

/// What balance=pipedream takes two workers to exchange, where nobody says: about what processes of one machine do through memory.
constexpr const char* kBandwidth = "8Gbps";

/// "2/1". Errors: invalid_argument.
std::vector<int> whole_numbers(const Spec& spec, const std::string& key) {
  std::vector<int> numbers;
  for (const auto& part : split(spec.options.at(key), '/')) {
    int number = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    if (error != std::errc{} || end != part.data() + part.size() || number < 1)
      throw Error(Code::invalid_argument, fmt::format("[{}] {}; got '{}', expected whole numbers of 1 or more, as 2/1", spec.name, key, spec.options.at(key)));
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

std::string text_option(const Spec& spec, const std::string& key, const std::string& otherwise) {
  const auto found = spec.options.find(key);
  return found == spec.options.end() ? otherwise : found->second;
}

Recompute recompute_option(const StrategyInput& input, const std::vector<std::string>& words) {
  if (!input.spec.options.contains("recompute")) return input.recompute ? Recompute::always : Recompute::never;
  const auto word = word_option(input.spec, "recompute", words);
  return word == "never" ? Recompute::never : word == "always" ? Recompute::always : Recompute::except_last;
}

std::vector<int> replicas_option(const StrategyInput& input) {
  if (!input.spec.options.contains("replicas")) return {};
  auto replicas = whole_numbers(input.spec, "replicas");
  const auto workers = std::accumulate(replicas.begin(), replicas.end(), std::int64_t{0});
  if (workers != input.workers)
    throw Error(Code::invalid_argument, fmt::format("[{}] replicas of all stages together are the workers; got {}, which are {}, with {} workers, expected {} workers or numbers "
                                                    "that add up to {}", input.spec.name, input.spec.options.at("replicas"), workers, input.workers, workers, input.workers));
  return replicas;
}

std::vector<MachineLevel> machines_option(const StrategyInput& input) {
  const auto& spec = input.spec;
  const auto counts = spec.options.contains("machines") ? whole_numbers(spec, "machines") : std::vector<int>{input.workers};
  const auto rates = split(text_option(spec, "bandwidth", kBandwidth), '/');
  std::int64_t workers = 1;
  for (const int count : counts) workers = std::min<std::int64_t>(workers * count, std::int64_t{1} << 32);
  if (workers != input.workers)
    throw Error(Code::invalid_argument, fmt::format("[{}] machines of all levels multiplied are the workers; got {} with {} workers, expected numbers whose product is {}", spec.name,
                                                    fmt::join(counts, "/"), input.workers, input.workers));
  if (rates.size() != counts.size())
    throw Error(Code::invalid_argument, fmt::format("[{}] each level of machines has a bandwidth; got bandwidth={} of {} levels, expected {} rates", spec.name, fmt::join(rates, "/"),
                                                    counts.size(), counts.size()));
  std::vector<MachineLevel> levels;
  for (std::size_t level = 0; level < counts.size(); ++level) levels.push_back({counts[level], unit_option(spec, "bandwidth", rates[level], parse_bits_per_second).value / 8});
  return levels;
}

void require_layers(const StrategyInput& input, const PipelineShape& shape, int least_chunks) {
  const auto& all = input.graph.layers;
  const auto layers = static_cast<int>(std::count_if(all.begin(), all.end(), [](const Layer& layer) { return layer.kind != LayerKind::input; }));
  const auto stages = static_cast<std::int64_t>(shape.workers) * shape.chunks;
  if (stages <= layers) return;
  std::vector<std::string> would;
  // Of a mesh it is an axis that is so long.
  const auto* const places = input.spec.name == "hybrid" ? "places on axis pipeline" : "workers";
  if (layers >= shape.chunks) would.push_back(fmt::format("at most {} {}", layers / shape.chunks, places));
  if (shape.chunks > least_chunks && layers / shape.workers >= least_chunks) would.push_back(fmt::format("chunks={} or fewer", layers / shape.workers));
  if (shape.chunks > 1 && shape.workers <= layers) would.emplace_back("a schedule of one stage a worker, as 1f1b");
  would.push_back(fmt::format("a network of {} layers", stages));
  throw Error(Code::invalid_argument, fmt::format("[{}] a stage of {} holds one of its {} layers or more (inputs not counted); got {} {} of {} stage{} each, which are {} stages, expected {}",
                                                  input.spec.name, input.graph.name, layers, shape.workers, places, shape.chunks, shape.chunks == 1 ? "" : "s", stages, join(would, ", or ")));
}

LayerCosts costs_of(const StrategyInput& input, int stages, std::int64_t samples, double flops_per_second) {
  CostOptions options;
  options.samples = samples;
  options.element_bytes = input.element_bytes;
  options.value_bytes = ValueWidths(input).bytes;
  options.optimizer_tensors = input.optimizer_tensors;
  options.forward = input.forward_seconds;
  options.backward = input.backward_seconds;
  options.flops_per_second = flops_per_second;
  auto costs = layer_costs(input.graph, options);
  partition_by_count({costs, stages});
  return costs;
}

std::vector<int> cut(const StrategyInput& input, const PartitionInput& wanted) {
  if (const auto told = text_option(input.spec, "stages", ""); !told.empty()) {
    if (const auto balance = text_option(input.spec, "balance", ""); !balance.empty())
      throw Error(Code::invalid_argument, fmt::format("[{}] stages and balance both say where the network is cut; got stages={} with balance={}, expected one of them", input.spec.name, told, balance));
    auto partition = parse_partition(told, wanted.costs);
    if (static_cast<int>(partition.cuts.size()) != wanted.stages)
      throw Error(Code::invalid_argument, fmt::format("[{}] stages={} has {} stages; expected {}, one for each chunk of each worker, or each number of replicas", input.spec.name, told,
                                                      partition.cuts.size(), wanted.stages));
    return partition.cuts;
  }
  const auto word = text_option(input.spec, "balance", "time");
  if (word == "pipedream")
    throw Error(Code::invalid_argument, fmt::format("[{}] balance=pipedream says itself how many stages there are, of how many workers each; got it {}, expected balance=time, flops, count or "
                                                    "memory, or strategy pipeline[balance=pipedream]", input.spec.name,
                                                    input.spec.options.contains("replicas") ? "with replicas=" + input.spec.options.at("replicas") : "of stages of one worker each"));
  return builtin_partitioners().at(word).make(wanted).cuts;
}

bool finds_replicas(const Spec& spec) {
  return text_option(spec, "balance", "") == "pipedream" && !spec.options.contains("replicas") && !spec.options.contains("stages");
}

}  // namespace ddl
