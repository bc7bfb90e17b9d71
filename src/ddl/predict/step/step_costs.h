#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "ddl/plan/plan.h"
#include "ddl/predict/step/fair_share.h"
#include "ddl/predict/step/jitter.h"

namespace ddl {

/// What one task takes while nothing else is at work.
struct TaskCost {
  double seconds = 0;
  std::vector<Demand> demands = {};  ///< what it uses of shared resources then
  double handing = 0;                ///< of what computes: handing over the messages that it made, which are on their way meanwhile, before the stream goes on
};

/// Who does a role's tasks, all alike: one worker, or with `count` above 1 as many that do the same at the same time.
struct Actor {
  int role = 0;
  int worker = 0;  ///< one of those that it stands for: the first, or another (placed_actors.h)
  int count = 1;
};

/// What a step of a plan takes on some machine: what simulating and pricing read beside the plan.
struct StepCosts {
  std::vector<Actor> actors;
  bool each_alone = true;  ///< every actor is one worker
  /// By actor and task of its role. Of messages and collectives: from when all who take part are at it; the longest of what they say counts (but see `ends_apart`). A task that is a message with each of several workers: nothing where actors are workers, since these say it all; all together where they are roles.
  std::vector<std::vector<TaskCost>> tasks;
  /// What of collectives is told above is when each was seen to be through, which may be long after another, whose core nobody else had; they use no shared resources then. A message is over for both when it is received.
  bool ends_apart = false;
  /// By role and bucket: the share of the last backward that completes it which is over when its event is raised, 0 to 1.
  std::vector<std::vector<double>> ready;
  /// By actor, at the end of each step, of what is no task: the product's own bookkeeping.
  std::vector<TaskCost> harness;
  /// By actor: what its loader takes to make a batch, beside everything else, `prefetch` batches ahead of what was taken.
  std::vector<TaskCost> loader;
  int prefetch = 1;
  Jitter jitter;                       ///< of what each worker computes; none: every step is the same
  std::vector<std::string> resources;  ///< by number: what Demand::resource names
  std::unordered_map<std::string, int> resource_numbers;

  /// The number of that name, a new one if there is none yet.
  int resource(const std::string& called);
};

/// One actor for each role.
std::vector<Actor> roles_as_actors(const Plan& plan);
/// One actor for each worker.
std::vector<Actor> workers_as_actors(const Plan& plan);
/// By actor, what spans say that they are of (Span::worker): the worker, or where numbers of workers are too large for that the number of the actor.
std::vector<std::int16_t> span_workers(const std::vector<Actor>& actors);

}  // namespace ddl
