#pragma once

#include <cstdint>
#include <vector>

#include "ddl/measure/timeline.h"
#include "ddl/plan/plan.h"
#include "ddl/predict/step/step_costs.h"

namespace ddl {

/// One step of a run, as its trace has it.
struct TracedStep {
  std::int64_t number = 0;
  std::vector<Period> workers;  ///< by worker: from its beginning to the end of its bookkeeping
  Trace spans;                  ///< of all workers
};

/// What a worker computed of a task while a collective of its went on.
struct Overlap {
  int compute = kNone, collective = kNone;  ///< its tasks
  double seconds = 0;                       ///< that both went on
  double alone = 0;                         ///< of these, of what no collective that began earlier went on beside
  double from = 0, to = 1;                  ///< where in the task that computes `alone` lay, as shares of it
};

/// What one step's tasks took, by worker. Seconds.
struct StepDraw {
  std::int64_t number = 0;
  double seconds = 0;                        ///< the step, on the mean over workers
  /// By worker and task; NaN of one that was not done. Of messages and collectives: from when all who take part were at it until a message is received, or this worker has what the collective gives it; with servers that answer each worker by itself, without what it
  /// waited for its turn (served.h).
  std::vector<std::vector<double>> tasks;
  std::vector<std::vector<double>> handing;  ///< by worker and task: handing messages over once it was done, which computation stands still for
  std::vector<std::vector<bool>> waited = {};  ///< by worker and task: of a message that waited for its turn at a server, and took this or more by itself (served.h); empty: of none
  std::vector<std::vector<Overlap>> overlaps = {};  ///< by worker: each pair of its tasks once; none with servers, whose tasks are messages with several workers
  std::vector<double> rest;                  ///< by worker: neither a task nor a wait for one: bookkeeping, and what no span accounts for
};

/// What a trace says of the costs of a plan's tasks.
struct StepDraws {
  std::vector<StepDraw> steps;
  StepDraw medians;                          ///< over the steps, of each number; 0 of what was never done
  std::vector<std::vector<double>> ready;    ///< as StepCosts has it
  /// By worker: what its loader takes to make a batch, where the worker waited for it; 0 where batches were there in time, however close that was.
  std::vector<double> loader;
  std::vector<double> workers = {};          ///< by worker: its own step, on the mean
  bool apart = false;                        ///< workers step by themselves (server_turns.h)
  /// A step, on the mean; of workers that step apart, in which all of them together do as many steps as they are.
  double seconds() const;
};

/// The mean of what workers take; where they step apart the harmonic one, which keeps what they do together in a given time.
double mean_of_workers(const std::vector<double>& seconds, bool apart);

/// `plan`: the one that was run. `reads_ahead`: batches are made beside the steps; else in them.
/// Errors: invalid_argument without steps, and for steps of another number of workers.
StepDraws step_draws(const Plan& plan, const std::vector<TracedStep>& steps, bool reads_ahead);

/// What a worker's tasks are to a loss of speed.
enum class Work : std::uint8_t {
  load,
  compute,      ///< forward and backward: divided among the workers
  other,        ///< updates, means: what each of several workers may do all over
  communicate,
};
Work work_of(const Task& task);

/// How often a task is done a step: a server that applies each gradient as it comes does that once for each worker.
int times_a_step(const Plan& plan, const Task& task);

/// Seconds of one worker's tasks of a kind.
double seconds_of(const Role& role, const std::vector<double>& tasks, Work work);

}  // namespace ddl
