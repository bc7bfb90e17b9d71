#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ddl/predict/explain/causes.h"

namespace ddl {

/// What there is to explain: a run's traced steps, and what is known beside them.
struct LossInput {
  const Plan& plan;                     ///< that was run
  const StepDraws& draws;
  /// Of a message or collective among these workers, what it takes for want of bytes; absent, or nothing: not known.
  std::function<std::optional<double>(const Task& task, const std::vector<int>& among)> latency = {};
  std::vector<double> contention = {};  ///< by worker, how much longer computing takes beside the others; empty: not known
  /// How a worker's collective and what it computes meanwhile slow each other, beyond `contention`; null: not known.
  std::function<Slowed(int worker, const Task& task)> beside = {};
  std::optional<OneWorker> one = {};      ///< measured; absent: what one worker would take is told from the trace
};

struct CausePart {
  LossCause cause = LossCause::fabric;
  double lost = 0;             ///< of the speed-up, in times one worker; below 0: won
  double step_without = 0;     ///< s, simulated, with this cause alone away
  double speedup_without = 0;  ///< as reached, and the gain on top
};

struct LossReport {
  int workers = 1;
  bool apart = false;          ///< they step by themselves (step/server_turns.h): a step is what all of them together do as many in as they are, and the speed-up the sum of what each contributes
  std::vector<double> worker_steps;  ///< s, by worker: its own step on the mean
  double measured = 0;         ///< s, a step on the mean of the traced ones
  double simulated = 0;        ///< s, the same by the simulator, from what the tasks took
  OneWorker one;
  bool one_measured = false;
  double speedup = 0;          ///< reached
  std::vector<CausePart> parts;  ///< those that apply, the largest loss first
  /// workers - speedup - the parts: what the simulator leaves open.
  double not_explained = 0;
  std::vector<LossCause> not_known;  ///< that apply but cannot be told apart
  std::size_t drawn = 0;       ///< steps that were simulated, for jitter
  double loss() const { return workers - speedup; }
};

/// Attributes what is lost against as many times one worker's speed to causes: each set of causes is simulated away, and a cause has its mean share over all orders in which they may go (shapley.h). Where no
/// run of one worker is given, that worker's step is what all workers compute, and once what each of them does all over. Steps of asynchronous plans are simulated in the middle of others, where the pipeline is
/// full; those of workers that step apart each by itself, with its turns at the servers.
/// Cost: 2^causes simulations of three steps or more, of half of which it is all traced steps; fewer are drawn where that is more than a few seconds.
LossReport attribute_loss(const LossInput& input);

}  // namespace ddl
