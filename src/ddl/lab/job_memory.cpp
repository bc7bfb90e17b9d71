#include "ddl/lab/job_memory.h"

#include <algorithm>
#include <vector>

#include "ddl/core/units.h"
#include "ddl/lab/predict_job.h"
#include "ddl/predict/datasheet/machine_source.h"
#include "ddl/strategy/batch_shares.h"
#include "ddl/train/plan_job.h"

namespace ddl {
namespace {

/// Of processors: where 90 % of what fullest workers held lies, as a share of what was planned. 35 forms of strategies in fp32 were -2.6 to +6.9 % off, 0.8 % on the mean, of 44 in bf16 one more than 5.5 % (docs/strategies.md).
constexpr double kOfProcessors = 0.05;

/// Of GPUs counts what the allocator takes of the device: blocks that nobody uses besides, and what libraries work in. On an H100 plans were .83 to .91 of it, graphs add up to 6 %, LeNet took 90 MiB; in fp32, where cuDNN convolves in
/// memory of its own, .41 to .68 of VGG-11's and ResNet-18's, at most 0.8 GB more (docs/strategies.md). Judgement between.
constexpr double kLessOnGpus = 0.10, kMoreOnGpus = 0.30, kLibraries = 0.1e9, kConvolving = 0.8e9;

/// The ends for so many bytes that were planned.
struct Ends {
  double low = 0, high = 0;
};
Ends ends_of(double planned, bool gpu, bool convolving) {
  if (!gpu) return {(1 - kOfProcessors) * planned, (1 + kOfProcessors) * planned};
  return {(1 - kLessOnGpus) * planned, (1 + kMoreOnGpus) * planned + (convolving ? kConvolving : kLibraries)};
}

}  // namespace

JobMemory job_memory(const Job& job, const ModelGraph& graph, const Plan& plan, const JobCosts& costs, const StepPrediction& step) {
  JobMemory out;
  const bool convolving = (job.precision == "fp32" || job.precision == "tf32") && convolves(graph);
  const auto check = [&](double planned, std::size_t worker) {
    const auto ends = ends_of(planned, costs.gpus[worker], convolving);
    const double room = costs.memory_of[worker];
    if (planned > room) out.fits = false;
    if (ends.high <= room || out.room > 0) return;
    out.surely = false;
    out.tight = static_cast<std::int64_t>(ends.high);
    out.room = static_cast<std::int64_t>(room);
  };
  const bool alike = std::all_of(costs.memory_of.begin(), costs.memory_of.end(), [&](double own) { return own == costs.memory_of.front(); });
  const auto planned = static_cast<double>(step.most.total());
  std::size_t fullest = 0;
  if (batch_shares(job.strategy).empty() && alike) {
    // All hold as much: the wider interval counts.
    if (const auto gpu = std::find(costs.gpus.begin(), costs.gpus.end(), true); gpu != costs.gpus.end()) fullest = static_cast<std::size_t>(gpu - costs.gpus.begin());
    check(planned, fullest);
  } else {
    // Beside what the plan says, what compression keeps: of who holds most, as of the others.
    std::int64_t most = 0;
    for (const auto& role : plan.roles) most = std::max(most, static_cast<std::int64_t>(role.holds.total()));
    const auto besides = static_cast<std::int64_t>(step.most.total()) - most;
    const auto holds = holdings_by_worker(job, graph, plan);
    for (std::size_t w = 0; w < holds.size(); ++w) {
      if (holds[w].total() > holds[fullest].total()) fullest = w;
      check(static_cast<double>(static_cast<std::int64_t>(holds[w].total()) + besides), w);
    }
  }
  const auto ends = ends_of(planned, costs.gpus[fullest], convolving);
  out.low = static_cast<std::int64_t>(ends.low);
  out.high = static_cast<std::int64_t>(ends.high);
  return out;
}

std::string memory_held(const StepPrediction& step, const JobMemory& memory) {
  return fmt::format("{} ({} to {}){}", to_string(Bytes{step.most.total()}), to_string(Bytes{memory.low}), to_string(Bytes{memory.high}), !memory.fits ? ", more than there is" : !memory.surely ? ", maybe more than there is" : "");
}

}  // namespace ddl
