#include "ddl/lab/predicted_trace.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ddl/core/error.h"
#include "ddl/lab/plan_record.h"
#include "ddl/lab/predict_job.h"
#include "ddl/lab/step_book.h"
#include "ddl/strategy/bucketing.h"
#include "ddl/strategy/split_parts.h"

namespace ddl {
namespace {

/// Each has a file of its own, or a lane.
constexpr std::size_t kMostTraced = 1024;

Json ranks_json(const Job& job) {
  Json ranks = Json::array();
  for (std::size_t rank = 0; rank < job.workers.size(); ++rank) ranks.push_back({{"rank", rank}, {"device", job.workers[rank].device}});
  return ranks;
}

/// From a worker's first span of a step to its last.
Json steps_json(const Trace& trace, Nanoseconds start) {
  std::map<std::pair<std::int32_t, int>, std::pair<Nanoseconds, Nanoseconds>> periods;
  for (const auto& span : trace) {
    if (span.stream != Stream::compute) continue;
    const auto [place, fresh] = periods.try_emplace({span.step, span.worker}, span.begin, span.end);
    place->second = {std::min(place->second.first, span.begin), std::max(place->second.second, span.end)};
  }
  Json steps = Json::array();
  for (const auto& [of, period] : periods)
    steps.push_back({{"rank", of.second}, {"step", of.first}, {"begin_us", static_cast<double>(period.first - start) * 1e-3}, {"end_us", static_cast<double>(period.second - start) * 1e-3}});
  return steps;
}

}  // namespace

Json predicted_trace(const Experiment& experiment, const ModelGraph& graph, const Json& machine, int per_node, const StoredSamples& stored) {
  auto job = experiment.job;
  // Of the way that is predicted.
  if (tunes_buckets(job.strategy) && job.workers.size() > 1)
    if (const auto found = predict_job(job, graph, machine, Engine::automatic, per_node, stored); found.tuned) job.strategy = with_bucketing(job.strategy, *found.tuned);
  job = job_on(std::move(job), graph, machine);
  if (job.workers.size() > kMostTraced)
    throw Error(Code::unsupported, fmt::format("[predict] unsupported: a trace of {} workers; expected at most {}", job.workers.size(), kMostTraced));
  const auto costs = job_costs(job, machine, per_node);
  const auto plan = planned_job(job, graph, *costs.source);
  const auto part = graph_of(plan, graph, 0);
  // Each worker has its own spans, where one could stand for others, too; of a usual step, not of one that was drawn.
  const auto step = predict_step({plan, part, job.strategy, job.batch, *costs.source, 0, Engine::simulated, true, loading_of(job, machine, stored, per_node), costs.unlike, true});
  Nanoseconds start = step.trace.empty() ? 0 : step.trace.front().begin;
  for (const auto& span : step.trace) start = std::min(start, span.begin);
  Json trace = Json::array();
  for (const auto& span : step.trace) trace.push_back(span_json(plan, span, start));
  return {{"schema", "ddlbench.predicted/1"}, {"id", "predicted"}, {"machine", machine.value("name", machine.value("host", ""))}, {"config", experiment.config}, {"plan", plan_json(job.strategy, plan, PassSeconds{})},
          {"stages", stages_json(graph, plan)}, {"ranks", ranks_json(job)}, {"trace", std::move(trace)}, {"trace_steps", steps_json(step.trace, start)}};
}

}  // namespace ddl
