#include "ddl/lab/job_interval.h"

#include <algorithm>
#include <cmath>

#include "ddl/lab/real_worker.h"
#include "ddl/predict/datasheet/machine_source.h"
#include "ddl/predict/interval.h"
#include "ddl/predict/machine.h"
#include "ddl/predict/measured/measured_machine.h"

namespace ddl {
namespace {

/// What runs of the same differ by on one machine, and what collectives are off by where they are held out of their fit (docs/machine.md), of the share of a step that they are exposed in:
/// standard deviations of the logarithm, by judgement.
constexpr double kRunToRun = 0.02, kExposed = 0.2;

/// Of what a step's messages and collectives take, where computing takes what it is said to; and for each doubling of workers over cores, whose exchanges wait for a core that was theirs when wires were measured.
constexpr double kWireSigma = 0.05, kCrowded = 0.05;

/// For each doubling between the ranks of a collective and those that were measured, of the share of a step that it is exposed in. Judgement.
constexpr double kRanksBeyond = 0.1;

/// The same for each doubling of bytes over the largest message that was measured; and, of the whole step, of workers on a host over the most that were measured at once. Judgement.
constexpr double kBytesBeyond = 0.05, kWorkersBeyond = 0.05;

/// The same of a datasheet's, whose exchanges are by its library's published constants; for each doubling of devices over those that it was held against; and over wires that are not its own. Judgement.
constexpr double kDatasheetExposed = 0.15, kDatasheetDoubling = 0.04, kDatasheetWires = 0.1;

/// Where nobody measured what computing and collectives take from each other, of the whole step. Judgement.
constexpr double kContentionBeyond = 0.05;

/// For each doubling of an update, or of making a batch, over the most that was measured; of the whole step. Judgement.
constexpr double kCarriedOn = 0.02;

double crowding(const Json& machine, std::size_t workers) {
  const auto& cpu = machine.value("cpu", Json());
  const auto cores = cpu.is_object() && cpu.value("usable_cores", Json()).is_number() ? cpu["usable_cores"].get<double>() : static_cast<double>(workers);
  return std::log2(std::max(1.0, static_cast<double>(workers) / std::max(1.0, cores)));
}

/// How far off the parts of a plan's step may be that are computed: of the logarithm of measured over predicted.
double job_sigma(const JobCosts& costs, const Job& job, const Plan& plan, const ModelGraph& part) {
  if (costs.measured == nullptr) return kDatasheetSigma;
  const auto real = first_real_worker(job, plan);
  // What emulated workers compute is known.
  return real ? costs.measured->uncertainty(real->number, part, real->samples) : kWireSigma;
}

}  // namespace

std::pair<double, double> job_interval(const Job& job, const Plan& plan, const ModelGraph& part, const JobCosts& costs, const Json& machine, const Beyond& beyond, const StepPrediction& step) {
  const double sigma = job_sigma(costs, job, plan, part);
  if (step.mean.wall <= 0) return interval_of(step.seconds, sigma);
  const double exposed = (step.mean[Cause::communication] + step.mean[Cause::wait]) / step.mean.wall;
  if (costs.measured == nullptr)
    return interval_of(step.seconds, std::hypot(std::hypot(sigma, kDatasheetDoubling * beyond.devices), beyond.wires ? kDatasheetWires : 0, kDatasheetExposed * exposed));
  // Wires were measured between ranks that had the cores for themselves.
  const double crowded = job.emulates() ? kCrowded * crowding(machine, job.workers.size()) : 0;
  const double own = is_measured(machine) ? kRunToRun : 0, exchanges = (is_measured(machine) ? kExposed : 0) + kRanksBeyond * beyond.ranks + kBytesBeyond * beyond.bytes;
  return interval_of(step.seconds, std::hypot(std::hypot(sigma, crowded, kWorkersBeyond * beyond.workers), std::hypot(own, beyond.contention ? kContentionBeyond : 0, kCarriedOn * beyond.carried), exchanges * exposed));
}

}  // namespace ddl
