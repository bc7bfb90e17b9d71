#pragma once

#include <vector>

#include "ddl/plan/plan.h"
#include "ddl/predict/step/simulate_step.h"
#include "ddl/predict/step/step_costs.h"

namespace ddl {

/// The step of a plan of several roles as a recurrence: a task begins when all that it waits for is over, so that it ends after the longest path through what comes before it. Steps follow each other as they do in a
/// run, each worker going on once it has ended its own. What is waited for is the same in each step, so that the order of the recurrence is found once.
/// Assumes, as all closed forms do, that workers of a role take the same time and that nothing under way at once shares a resource; nothing of how long stages take.
/// Where steps run into each other a message is one of the step in which it is received: its sender was at it so many steps before as it is further ahead.
/// Not of servers. Memory and time: in proportion to the tasks of all roles.
class LongestPath {
 public:
  /// `costs` are of roles_as_actors(). Errors: invalid_argument for a plan that comes to a stop (verify() says where).
  LongestPath(const Plan& plan, const StepCosts& costs);

  /// Seconds from one step to the next, the mean over those after the first of so many as are simulated, and where steps run into each other of those in which the pipeline is full. `times`: by role, how many times as long all that it computes takes.
  double step_seconds(const std::vector<double>& times);

 private:
  /// What a node waits for: that so much of another is over.
  struct Wait {
    std::size_t node;
    double share;
  };
  struct Found {
    std::size_t from, to;
    double share;
  };
  /// The same of an earlier step.
  struct FromBefore {
    std::size_t from, to;
    int steps;
  };

  void add_role(const Plan& plan, const StepCosts& costs, int number, const std::vector<int>& meetings, const std::vector<int>& ahead);
  void wait(std::size_t from, std::size_t to, double share = 1) { found_.push_back({from, to, share}); }
  void wait_for_earlier(std::size_t from, std::size_t to, int steps);
  void sort();

  StepRange range_;
  bool asynchronous_;  ///< asked once: it looks at all tasks
  std::vector<double> seconds_;                                  ///< by node: meetings by their numbers, then each role's tasks and the end of its step
  std::vector<int> computed_by_;                                 ///< by node: the role whose computation it is; kNone: of the wires
  std::vector<std::size_t> step_ends_;                           ///< nodes, by role
  std::vector<Found> found_;                                     ///< waits within a step, as they were found
  std::vector<FromBefore> from_before_;
  std::vector<std::size_t> order_;                               ///< nodes, none before what it waits for
  std::vector<std::size_t> first_wait_;                          ///< by place in that order
  std::vector<Wait> waits_;
};

}  // namespace ddl
