#pragma once

#include <string>

#include "ddl/predict/explain/step_draws.h"

namespace ddl {

/// The worker that the others have to wait for.
struct Straggler {
  int worker = kNone;       ///< kNone: nobody stands out
  double late = 0;          ///< s a step, by which it is busy longer than its peers' median; of the latest, also where nobody stands out
  double error = 0;         ///< of that: standard error over the steps
  std::string task;         ///< label of that of its tasks, or the kind of those, which differs most from its peers'
  double task_late = 0;     ///< s a step
  std::size_t steps = 0;
};

/// A worker's peers are the others of its role, or, where roles have one worker each, all others. It stands out where it is busy (forward, backward, update; among peers that load batches waiting for them, too) longer than their
/// median in the traced steps by more than three standard errors and by more than 2 % of a step. Not busy is who exchanges: a message and a collective take all who take part as long.
Straggler find_straggler(const Plan& plan, const StepDraws& draws);

}  // namespace ddl
