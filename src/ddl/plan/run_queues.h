#pragma once

#include <string>
#include <vector>

#include "ddl/plan/meetings.h"
#include "ddl/plan/plan.h"

namespace ddl {

/// Runs the queues of all roles without time, and tells of tasks that cannot start, the first of each queue; empty where all can. A role stands for its workers: they do the
/// same. Tasks of one meeting are one event, which happens once all of them may.
///
/// Steps of an asynchronous plan go on into each other: their tasks wait for some of steps before. Over all steps there is no circle of tasks that wait for each other where
/// there is none among waits within one step, each event being counted in the step in which it is received: then no wait goes back, and a circle cannot contain one that goes on
/// (Commoner, Holt, Even, Pnueli, "Marked directed graphs", J. Computer and System Sciences 5, 1971: live where every circuit has a token). So one step is run, however
/// many there are in flight. What is left out before the first batch and after the last makes no circle. A plan in which some wait does go back, a receiver that is further
/// ahead than its sender, is unrolled instead.
///
/// Takes time in proportion to the tasks (of an unrolled plan, times the steps).
std::vector<std::string> run_queues(const Plan& plan, const Meetings& meetings);

}  // namespace ddl
