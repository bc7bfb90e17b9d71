#include "ddl/lab/job_interval.h"

#include <algorithm>
#include <cmath>

#include "ddl/lab/real_worker.h"
#include "ddl/predict/datasheet/machine_source.h"
#include "ddl/predict/interval.h"
#include "ddl/predict/measured/measured_machine.h"

namespace ddl {
namespace {

/// What runs of the same differ by on one machine, and what collectives are off by where they are held out of their fit (docs/machine.md), of the share of a step that they are exposed in:
/// standard deviations of the logarithm, by judgement.
constexpr double kRunToRun = 0.02, kExposed = 0.2;

/// Of what a step's messages and collectives take, where computing takes what it is said to; and for each doubling of workers over cores, whose exchanges wait for a core that was theirs when wires were measured.
constexpr double kWireSigma = 0.05, kCrowded = 0.05;

/// Of steps below a millisecond of several emulated workers: two of .3 ms were predicted 36 % too fast, four below 1 ms 20 to 27 % (docs/validation.md, "Many emulated workers").
constexpr double kBrief = 0.25;

/// For each doubling between the ranks of a collective and those that were measured, of the share of a step that it is exposed in. Judgement.
constexpr double kRanksBeyond = 0.1;

/// The same for each doubling of bytes over the largest message that was measured; and, of the whole step, of workers on a host over the most that were measured at once. Judgement.
constexpr double kBytesBeyond = 0.05, kWorkersBeyond = 0.05;

/// The same where exchanges read memory of another place than what was measured; and of collectives that were never timed, which the rounds of others price. Judgement.
constexpr double kMemoryBeyond = 0.1, kUntimed = 0.1;

/// The same of a datasheet's, whose exchanges are by its library's constants, published or fitted; for each doubling of devices over those that it was held against; over wires that are not its own; and of what several exchange at once within a node. Judgement.
constexpr double kDatasheetExposed = 0.15, kDatasheetDoubling = 0.04, kDatasheetWires = 0.1, kDatasheetNode = 0.15;

/// Of exchanges over a test network, priced from messages on this host and what the network is said to let through: six such experiments were 2.3 to 9.8 % off on the mean, 4.1 given their computing (docs/validation.md, "Own runs"). Judgement.
constexpr double kFabricBeyond = 0.05;

/// Where nobody measured what computing and collectives take from each other, of the whole step. Judgement.
constexpr double kContentionBeyond = 0.05;

/// Where nothing of the host was measured but its wires, what runs of the same differ by and what it makes of batches and between steps, of the whole step. Judgement.
constexpr double kHostBeyond = 0.05;

/// Where a closed form takes what goes on at once as if each had cores, memory and wires for itself, of the whole step. Judgement.
constexpr double kAlone = 0.05;

/// What computing by one and the same datasheet is off by in one way of a job and not in another, whose passes have other samples or other parts of layers. Of published runs of one network on one sort of device the ratio of two was off by .04 to .12, of
/// logarithms, exposed exchanges included: by .10, .07 each (docs/validation.md, "What predict says of these rows"). Judgement.
constexpr double kDatasheetApart = 0.07;

/// For each doubling of an update, or of making a batch, over the most that was measured; of the whole step. Judgement.
constexpr double kCarriedOn = 0.02;

/// For each doubling of a loader's threads, or of readers of one storage, over the one that was measured; of a loader's pace. Judgement.
constexpr double kReadersBeyond = 0.1;

/// What storage gives, of which one measurement is kept: as of a loader (kLoadedOnce). Judgement.
constexpr double kStorageOnce = 0.15;

/// The share of a step that is spent waiting for batches above which they are what it waits for.
constexpr double kWaits = 0.02;

/// How far off the parts of a plan's step may be that are computed, of the logarithm of measured over predicted: as a whole, and apart from what all ways of the job on that machine are off alike by.
struct Computing {
  double sigma = 0, apart = 0;
};
Computing computing(const JobCosts& costs, const Job& job, const Plan& plan, const ModelGraph& part) {
  if (costs.measured == nullptr) return {kDatasheetSigma, kDatasheetApart};
  Computing out;
  for (const auto& real : real_workers(job, plan, *costs.measured)) {
    const double sigma = costs.measured->uncertainty(real.number, part, real.samples), drift = costs.measured->drift(real.number);
    out.sigma = std::max(out.sigma, sigma);
    out.apart = std::max(out.apart, std::sqrt(std::max(0.0, sigma * sigma - drift * drift)));
  }
  // What emulated workers compute is known.
  return out.sigma > 0 ? out : Computing{kWireSigma, kWireSigma};
}

/// Of the workers' loaders: the share of a step that they are waited for, beyond taking batches that are there; what they, or the storage that they read, take for a batch, and may be off by.
struct Loaders {
  double waits = 0, seconds = 0, sigma = 0;
};
Loaders loaders(const JobCosts& costs, const Job& job, const Plan& plan, const Beyond& beyond, const StepPrediction& step) {
  Loaders out;
  double takes = 0;
  if (costs.measured != nullptr && job.loader_threads > 0)
    for (const auto& real : real_workers(job, plan, *costs.measured)) {
      out.sigma = std::max(out.sigma, costs.measured->loader_uncertainty(real.number));
      takes = std::max(takes, costs.measured->load(real.number, real.samples * plan.micro_batches));
      if (out.sigma == 0) continue;
      StepCosts resources;
      out.seconds = std::max(out.seconds, costs.measured->loader(real.number, real.samples * plan.micro_batches, resources).seconds / job.loader_threads);
    }
  out.sigma = std::hypot(out.sigma, kReadersBeyond * beyond.readers, beyond.storage ? kStorageOnce : 0);
  // Without threads each batch is made in the step itself.
  out.waits = std::clamp((step.mean[Cause::load] - takes) / step.mean.wall, 0.0, 1.0);
  if (out.waits > kWaits) out.seconds = step.seconds;
  return out;
}

/// An interval that may be off by so much more for what makes batches.
std::pair<double, double> widened(const StepPrediction& step, double rest, const Loaders& loader) {
  const auto known = interval_of(step.seconds, rest);
  if (loader.sigma == 0) return known;
  // A slower loader may be what a step waits for; however fast it is, the rest of the step stays.
  const auto slower = interval_of(loader.seconds, std::hypot(rest, loader.sigma)).second;
  const auto faster = std::max(interval_of(step.seconds, std::hypot(rest, loader.sigma)).first, interval_of(step.seconds * (1 - loader.waits), rest).first);
  return {std::min(known.first, faster), std::max(known.second, slower)};
}

}  // namespace

StepInterval job_interval(const Job& job, const Plan& plan, const ModelGraph& part, const JobCosts& costs, const Beyond& beyond, const StepPrediction& step) {
  const auto computed = computing(costs, job, plan, part);
  const double alone = beyond.alone ? kAlone : 0;
  const auto made = [&](std::pair<double, double> ends, double of_this_way) { return StepInterval{ends.first, ends.second, std::hypot(computed.apart, alone, of_this_way)}; };
  if (step.mean.wall <= 0) return made(interval_of(step.seconds, std::hypot(computed.sigma, alone)), 0);
  const double exposed = (step.mean[Cause::communication] + step.mean[Cause::wait]) / step.mean.wall;
  const auto loader = loaders(costs, job, plan, beyond, step);
  const double waits = loader.waits > kWaits ? loader.sigma : 0;
  if (costs.measured == nullptr) {
    const double exchanges = std::hypot(kDatasheetDoubling * beyond.devices, beyond.wires ? kDatasheetWires : 0, (kDatasheetExposed + (beyond.node ? kDatasheetNode : 0)) * exposed);
    return made(widened(step, std::hypot(std::hypot(computed.sigma, alone), beyond.unheld, exchanges), loader), std::hypot(exchanges, waits, beyond.unheld_apart));
  }
  // Wires were measured between ranks that had the cores for themselves.
  const double crowded = std::hypot(kCrowded * beyond.crowded, beyond.brief ? kBrief : 0);
  const double exchanges = kExposed + kRanksBeyond * beyond.ranks + kBytesBeyond * beyond.bytes + (beyond.memory ? kMemoryBeyond : 0) + (beyond.untimed ? kUntimed : 0) + (beyond.fabric ? kFabricBeyond : 0);
  const double rest = std::hypot(std::hypot(crowded, kWorkersBeyond * beyond.workers), std::hypot(beyond.host ? kHostBeyond : kRunToRun, beyond.contention ? kContentionBeyond : 0, kCarriedOn * beyond.carried), exchanges * exposed);
  return made(widened(step, std::hypot(std::hypot(computed.sigma, alone), rest), loader), std::hypot(rest, waits));
}

}  // namespace ddl
