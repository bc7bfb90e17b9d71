#include "ddl/lab/job_memory.h"

#include <algorithm>

#include "ddl/core/units.h"
#include "ddl/lab/predict_job.h"
#include "ddl/strategy/batch_shares.h"
#include "ddl/train/plan_job.h"

namespace ddl {
namespace {

/// Where 90 % of what fullest workers held lies, as a share of what was planned. Of processors 35 forms of strategies were -2.6 to +6.9 % off, 0.8 % on the mean, in bf16 no more (docs/strategies.md). Of GPUs nothing was measured here:
/// as far as peaks that others published of GPTs were off, 33 of 34 within 8.2 % (docs/validation.md, "Memory"), and judgement.
constexpr double kOfProcessors = 0.05, kOfGpus = 0.10;

double uncertain(const Job& job) { return std::all_of(job.workers.begin(), job.workers.end(), [](const WorkerSpec& worker) { return worker.device == "cpu"; }) ? kOfProcessors : kOfGpus; }

/// Whether each worker has what it is planned to hold, and so many times as much.
bool has_room(const Job& job, const ModelGraph& graph, const Plan& plan, const JobCosts& costs, const StepPrediction& step, double times) {
  const bool alike = std::all_of(costs.memory_of.begin(), costs.memory_of.end(), [&](double own) { return own == costs.memory_of.front(); });
  if (batch_shares(job.strategy).empty() && alike) return times * static_cast<double>(step.most.total()) <= costs.memory_bytes;
  // Beside what the plan says, what compression keeps: of who holds most, as of the others.
  std::int64_t most = 0;
  for (const auto& role : plan.roles) most = std::max(most, static_cast<std::int64_t>(role.holds.total()));
  const auto besides = static_cast<std::int64_t>(step.most.total()) - most;
  const auto holds = holdings_by_worker(job, graph, plan);
  for (std::size_t w = 0; w < holds.size(); ++w)
    if (times * static_cast<double>(static_cast<std::int64_t>(holds[w].total()) + besides) > costs.memory_of[w]) return false;
  return true;
}

}  // namespace

JobMemory job_memory(const Job& job, const ModelGraph& graph, const Plan& plan, const JobCosts& costs, const StepPrediction& step) {
  JobMemory out;
  const double planned = static_cast<double>(step.most.total()), share = uncertain(job);
  out.low = static_cast<std::int64_t>((1 - share) * planned);
  out.high = static_cast<std::int64_t>((1 + share) * planned);
  out.fits = has_room(job, graph, plan, costs, step, 1);
  out.surely = out.fits && has_room(job, graph, plan, costs, step, 1 + share);
  return out;
}

std::string memory_held(const StepPrediction& step, const JobMemory& memory) {
  return fmt::format("{} ({} to {}){}", to_string(Bytes{step.most.total()}), to_string(Bytes{memory.low}), to_string(Bytes{memory.high}), !memory.fits ? ", more than there is" : !memory.surely ? ", maybe more than there is" : "");
}

}  // namespace ddl
