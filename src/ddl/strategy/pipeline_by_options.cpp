#include "ddl/strategy/pipeline_by_options.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/ranges.h>

#include "ddl/core/error.h"
#include "ddl/strategy/common.h"
#include "ddl/strategy/pipeline/schedules.h"
#include "ddl/strategy/pipeline_options.h"

namespace ddl {
namespace {

/// What balance=pipedream takes a worker to compute until layers are measured, to weigh it against what workers exchange: about a core's fp32.
constexpr double kFlopsPerSecond = 5e10;

/// As many as keep a bubble small, 4 a worker (Huang et al., GPipe, NeurIPS 2019, section 2), where there are samples for them.
int usual_micro_batches(const StrategyInput& input, int places, std::int64_t local) {
  // One place has nobody to keep busy meanwhile.
  if (input.micro_batches > 1 || places == 1) return input.micro_batches;
  const auto most = std::min<std::int64_t>(4 * places, local);
  return static_cast<int>(most >= places ? most / places * places : most);
}

bool are_several(const std::vector<int>& replicas) {
  return std::any_of(replicas.begin(), replicas.end(), [](int workers) { return workers > 1; });
}

/// The same where all of a stage's workers are to have as many: the multiple of their numbers that is next below `usual`, or the first.
int usual_micro_batches_alike(const std::vector<int>& replicas, int usual) {
  int multiple = 1;
  for (const int workers : replicas) multiple = std::lcm(multiple, workers);
  return std::max(multiple, usual / multiple * multiple);
}

void refuse_asynchronous(const StrategyInput& input, const std::string& word, const Pipeline& pipeline) {
  if (input.whole_gradient)
    throw Error(Code::unsupported, fmt::format("[pipeline] unsupported: asynchronous stages never see the whole gradient, which clipping and fp16 need; got {} with schedule={}, expected "
                                               "clip 0 and fp32, bf16 or tf32, or a synchronous schedule, as 1f1b", input.whole_gradient_word, word));
  if (pipeline.deferred_statistics)
    throw Error(Code::unsupported, fmt::format("[pipeline] unsupported: forwards of several steps mix; got schedule={} with batch-norm=deferred, expected batch-norm=micro", word));
}

}  // namespace

Pipeline pipeline_by_options(const StrategyInput& input, int places, int abreast) {
  const auto word = text_option(input.spec, "schedule", "1f1b");
  const auto schedules = builtin_pipeline_schedules();
  const auto& schedule = schedules.at(word).make;
  const auto local = local_batch(input, abreast);
  PipelineShape shape{places};
  auto replicas = replicas_option(input);
  const bool finds = finds_replicas(input.spec), is_told = input.spec.options.contains("micro");
  // Of an asynchronous schedule's stages, told or found, which share alike what is not told.
  const auto settle = [&](int otherwise) {
    if (schedule.synchronous || is_told) return otherwise;
    return are_several(replicas) ? usual_micro_batches_alike(replicas, otherwise) : word == "pipedream" ? 1 : otherwise;
  };
  const int usual = usual_micro_batches(input, places, local);
  shape.micro_batches = whole_option(input.spec, "micro", finds ? usual : settle(usual), 1, 1 << 20);
  if (is_told && input.micro_batches > 1 && input.micro_batches != shape.micro_batches)
    throw Error(Code::invalid_argument, fmt::format("[{}] micro and accumulate both say how many micro-batches there are; got micro={} with accumulate {}, expected one of them", input.spec.name,
                                                    shape.micro_batches, input.micro_batches));
  shape.chunks = whole_option(input.spec, "chunks", schedule.least_chunks, 1, 1 << 10);
  if (shape.micro_batches > local)
    throw Error(Code::invalid_argument, fmt::format("[{}] micro-batches have a sample or more; got micro={} of a batch of {}, expected at most {}", input.spec.name, shape.micro_batches,
                                                    local, local));
  Pipeline pipeline;
  pipeline.micro_batches = shape.micro_batches;
  pipeline.recompute = recompute_option(input);
  pipeline.deferred_statistics = word_option(input.spec, "batch-norm", {"micro", "deferred"}) == "deferred";
  if (!finds && (input.spec.options.contains("bandwidth") || input.spec.options.contains("machines")))
    throw Error(Code::invalid_argument, fmt::format("[pipeline] bandwidth and machines are what balance=pipedream weighs; got {} without it, expected balance=pipedream, and neither stages nor "
                                                    "replicas", to_string(input.spec)));
  const auto samples = (local + shape.micro_batches - 1) / shape.micro_batches;
  if (replicas.empty() && !(finds && schedule.replicated != nullptr)) require_layers(input, shape, schedule.least_chunks);
  const auto costs = costs_of(input, finds ? 1 : replicas.empty() ? shape.stages() : static_cast<int>(replicas.size()), samples, finds ? kFlopsPerSecond : 1);
  if (finds) {
    // Orders that stages of several workers cannot have are of one worker each.
    PartitionInput wanted{costs, schedule.replicated != nullptr ? 0 : shape.stages()};
    wanted.machines = machines_option(input);
    wanted.exchanges = 1.0 / shape.micro_batches;
    auto best = partition_pipedream(wanted);
    pipeline.cuts = std::move(best.cuts);
    replicas = std::move(best.replicas);
    shape.micro_batches = pipeline.micro_batches = settle(shape.micro_batches);
  }
  if (are_several(replicas)) {
    if (schedule.replicated == nullptr)
      throw Error(Code::unsupported, fmt::format("[pipeline] unsupported: stages of several workers with schedule={}; got replicas={}, expected schedule=gpipe, 1f1b, pipedream or "
                                                 "pipedream-2bw, or one worker for each stage", word, fmt::join(replicas, "/")));
    if (shape.chunks != 1)
      throw Error(Code::invalid_argument, fmt::format("[pipeline] workers of a stage with replicas have it alone; got chunks={}, expected 1", shape.chunks));
    pipeline.order = schedule.replicated(replicas, shape.micro_batches);
  } else {
    pipeline.order = schedule.order(shape);
  }
  if (!schedule.synchronous) {
    refuse_asynchronous(input, word, pipeline);
    for (int worker = 0; worker < places; ++worker) pipeline.staleness.push_back(schedule.staleness(pipeline.order, worker));
  }
  if (!finds) {
    PartitionInput wanted{costs, pipeline.order.stages()};
    wanted.replicas = pipeline.order.replicas;
    wanted.in_flight = [&](int stage, int) {
      if (!pipeline.order.replicas.empty()) return static_cast<double>(most_in_flight(pipeline.order, stage));
      return static_cast<double>(schedule.in_flight(shape, pipeline.order.worker_of_stage[static_cast<std::size_t>(stage)])) / shape.chunks;
    };
    pipeline.cuts = cut(input, wanted);
  }
  return pipeline;
}

}  // namespace ddl
