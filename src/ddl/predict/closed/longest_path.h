#pragma once

#include <vector>

#include "ddl/plan/plan.h"
#include "ddl/predict/step/step_costs.h"

namespace ddl {

/// The step of a plan of several roles as a recurrence: a task begins when all that it waits for is over, so that it ends after the longest path through what comes before it. Steps follow each other as they do in a
/// run, each worker going on once it has ended its own. What is waited for is the same in each step, so that the order of the recurrence is found once.
/// Assumes, as all closed forms do, that workers of a role take the same time and that nothing under way at once shares a resource; nothing of how long stages take.
/// Not of servers, nor of plans whose steps run into each other. Memory and time: in proportion to the tasks of all roles.
class LongestPath {
 public:
  /// `costs` are of roles_as_actors(). Errors: invalid_argument for a plan that comes to a stop (verify() says where).
  LongestPath(const Plan& plan, const StepCosts& costs);

  /// Seconds from one step to the next, the mean over those after the first of so many as are simulated. `times`: by role, how many times as long all that it computes takes.
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

  void add_role(const Plan& plan, const StepCosts& costs, int number, const std::vector<int>& meetings);
  void sort();

  int steps_;
  std::vector<double> seconds_;                                  ///< by node: meetings by their numbers, then each role's tasks and the end of its step
  std::vector<int> computed_by_;                                 ///< by node: the role whose computation it is; kNone: of the wires
  std::vector<std::size_t> step_ends_;                           ///< nodes, by role
  std::vector<Found> found_;                                     ///< waits within a step, as they were found
  std::vector<std::pair<std::size_t, std::size_t>> from_before_; ///< nodes that wait for one of the step before
  std::vector<std::size_t> order_;                               ///< nodes, none before what it waits for
  std::vector<std::size_t> first_wait_;                          ///< by place in that order
  std::vector<Wait> waits_;
};

}  // namespace ddl
