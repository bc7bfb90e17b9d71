#pragma once

#include <cstdint>
#include <span>

#include "ddl/measure/timeline.h"
#include "ddl/predict/step/step_costs.h"

namespace ddl {

struct StepSimulation {
  /// What a step takes when others come before and after it: the mean over all but the first (0 where there is one), of asynchronous plans over those in which the pipeline is full. Of workers that step
  /// apart (server_turns.h): in which all of them together do as many steps as they are.
  double step_seconds = 0;
  std::vector<double> ends;          ///< s, by step; when the last actor was through with it
  /// Spans of all actors, worker being Actor::worker: of the last step, or, where steps differ (StepCosts::jitter), of all but the first, and where they run into each other of those that step_seconds is the mean of.
  Trace trace;
  std::vector<Period> last;          ///< by actor: the time of the last step
  std::vector<Period> traced;        ///< by actor: the time of that trace
  std::vector<std::vector<Period>> steps;  ///< by actor: of the steps of that trace, from number `first_traced` on
  int first_traced = 0;
};

/// Steps that leave a trace, of those that are waited for; with jitter it is always all but the first.
enum class Traced : std::uint8_t { last, all_but_first };

/// Runs steps of a plan in virtual time, event by event. Tasks of the compute stream run in their order, and so do the collectives of a group, the messages of
/// one cargo between two roles, and what servers do; a task starts once its queue has come to it, all that it is after is over, and the event it waits for is raised, which
/// happens while backward runs. Messages and collectives begin when all who take part are at it. Whatever is under way shares resources fairly (FairShare).
/// With jitter each actor draws once for each step but the first how long all it computes takes in it: the slowest of as many workers as it stands for, of what is their own. What of that comes and goes within a step (Jitter::brief) an actor of one worker draws for each task.
/// Steps of an asynchronous plan go on into each other: so many batches, with the forwards that come before the first step. Servers that apply each gradient as it comes serve workers that step by themselves,
/// each as often as it comes to until the first has done all its steps; actors are best workers then, since roles do not wait for their turns within themselves. Neither has jitter.
/// Errors: invalid_argument for costs that do not fit the plan, for too few steps to tell of one (steps_to_simulate()), and for a plan that comes to a stop (verify() says where).
StepSimulation simulate_steps(const Plan& plan, const StepCosts& costs, int steps, int first_step = 0, Traced traced = Traced::last);
/// The same of steps that take what each of these says, the first giving actors, resources and what of a backward is over at each event; `steps`: of workers that step apart, how many, those costs but the
/// first coming round again. Errors: also for none.
StepSimulation simulate_each_step(const Plan& plan, std::span<const StepCosts> by_step, int first_step = 0, int steps = 0);

/// How many steps, and from which on, tell what a step takes: until every rhythm of the plan (Task::every) has come round once more than it starts.
struct StepRange {
  int steps = 3;
  int first = 0;
  int round = 1;  ///< after so many steps all tasks have had their turn
  int lead = 1;   ///< of them, those that come before what is told of; and after: of asynchronous plans, whose pipeline fills and drains
  int tail = 0;
};
StepRange steps_to_simulate(const Plan& plan);
/// The same where each step draws its own times: rounds enough for their mean.
StepRange steps_to_simulate(const Plan& plan, const Jitter& jitter);

}  // namespace ddl
