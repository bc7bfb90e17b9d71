#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "ddl/predict/explain/step_draws.h"

namespace ddl {

/// Why several workers are not as many times as fast as one.
enum class LossCause : std::uint8_t {
  fabric,      ///< bytes on their way; where latency is not known, that too
  latency,     ///< of messages and collectives, however few their bytes
  jitter,      ///< what of a step differs from one time to the next
  loader,      ///< waiting for batches
  bubble,      ///< stages of a pipeline wait for each other, and for messages between them
  unequal,     ///< workers that take longer than the mean of all
  contention,  ///< computing beside others on the same cores and memory, and computing and collectives beside each other
  compute,     ///< all workers together compute longer than one would: smaller parts; where contention is not known, that too
  undivided,   ///< what each does all over: updates, bookkeeping
};
inline constexpr std::size_t kLossCauses = 9;

std::string_view name(LossCause cause);
/// As a sentence goes on: "0.24x is lost to …".
std::string_view words(LossCause cause);

/// A set of causes.
using CauseSet = std::uint32_t;
constexpr CauseSet bit(LossCause cause) { return CauseSet{1} << static_cast<unsigned>(cause); }

/// One worker's step that does the work of all, seconds.
struct OneWorker {
  double compute = 0;  ///< forward and backward
  double load = 0;     ///< what it waits for batches
  double other = 0;    ///< all else
  double seconds() const { return compute + load + other; }
};

/// How much longer what a worker computes takes beside a collective than beside the other workers without, and how much longer the collective takes than with idle cores; 1: no longer.
struct Slowed {
  double compute = 1, collective = 1;
};

/// What is known of causes beside the trace.
struct KnownCosts {
  OneWorker one;
  std::vector<std::vector<double>> latency;  ///< s, by worker and task; empty: not known
  std::vector<double> contention = {};       ///< by worker, how much longer computing takes beside the others, 1 or more; empty: no longer
  std::vector<std::vector<Slowed>> beside = {};  ///< by worker and task, of collectives; empty: neither slows the other
  /// Of the medians: what all workers compute, each alone, and do besides, of one batch, and when buckets' events are raised (StepCosts::ready), had they computed beside no collective; find_alone() makes them.
  double compute_alone = 0, other_alone = 0;
  std::vector<std::vector<double>> ready_alone = {};
};
/// Makes these of `known.beside`.
void find_alone(const Plan& plan, const StepDraws& draws, KnownCosts& known);

/// The plan without waits between stages: each worker computes one task after the other. What it waits for otherwise stays.
Plan without_bubble(const Plan& plan);
/// Whether a task is a message between stages.
bool is_of_stages(const Task& task);

/// What a worker's tasks would take, had what they compute, and the collectives that went on meanwhile, not slowed each other. `tasks` as StepDraw has them, of whom `overlaps` tells; `slowed` by task.
void drop_beside(const std::vector<Overlap>& overlaps, const std::vector<Slowed>& slowed, std::vector<double>& tasks);

/// What workers' tasks would take, had each computed without the others beside it. `tasks` as StepDraw has them, `contention` as KnownCosts.
void drop_company(const Plan& plan, const std::vector<double>& contention, std::vector<std::vector<double>>& tasks);

/// What a plan's tasks cost in one of the steps (or in their medians), were these causes away.
StepCosts costs_without(const Plan& plan, const StepDraws& draws, const StepDraw& step, const KnownCosts& known, CauseSet away);

}  // namespace ddl
