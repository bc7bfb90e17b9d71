#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "ddl/strategy/pipeline/schedules_testing.h"
#include "ddl/strategy/pipeline/steps.h"

namespace ddl {
namespace {

constexpr auto F = Pass::forward, B = Pass::backward;

/// What one worker's steps show of its weights. An update follows the last backward of each batch; version t is after t updates.
struct Worker {
  std::map<int, int> newest_at_forward;  ///< by batch: the newest version at its first forward here
  std::vector<std::pair<Action, int>> actions;  ///< each with the number of updates before it
};

Worker follow(const std::vector<Action>& actions, int micro_batches) {
  Worker worker;
  std::map<int, int> backwards;
  int updates = 0;
  for (const Action& action : actions) {
    const int batch = action.micro_batch / micro_batches;
    worker.actions.emplace_back(action, updates);
    if (is_forward(action.pass)) worker.newest_at_forward.emplace(batch, updates);
    if (finishes(action.pass) && ++backwards[batch] == micro_batches) {
      EXPECT_EQ(batch, updates);  // batches end in their order, or versions mean nothing
      ++updates;
    }
  }
  return worker;
}

/// The most versions that a worker needs at once, if batch b is computed with version used(b): from its first forward to its last
/// backward, beside the newest.
template <typename Used>
int versions_needed(const Worker& worker, int micro_batches, const Used& used) {
  std::map<int, int> last;
  for (std::size_t i = 0; i < worker.actions.size(); ++i) last[worker.actions[i].first.micro_batch / micro_batches] = static_cast<int>(i);
  std::set<int> begun;
  std::size_t most = 1;
  for (std::size_t i = 0; i < worker.actions.size(); ++i) {
    const auto& [action, updates] = worker.actions[i];
    begun.insert(action.micro_batch / micro_batches);
    std::set<int> versions{updates};
    for (const int batch : begun)
      if (last[batch] >= static_cast<int>(i)) versions.insert(used(batch));
    most = std::max(most, versions.size());
  }
  return static_cast<int>(most);
}

TEST(PipeDream, WorkerKeepsAVersionForEachBatchInFlight) {
  const auto schedule = pipedream();
  for (const int P : {1, 2, 3, 4, 8}) {
    const int steps = 3 * P + 4;
    const auto order = unroll(schedule.order({P, 1}), 1, steps);
    for (int w = 0; w < P; ++w) {
      const auto worker = follow(order.actions[static_cast<std::size_t>(w)], 1);
      // Weight stashing: the newest at the forward, kept for the backward.
      const auto used = [&](int batch) { return worker.newest_at_forward.at(batch); };
      const int staleness = schedule.staleness(schedule.order({P, 1}), w);
      EXPECT_EQ(versions_needed(worker, 1, used), 1 + staleness);
      for (int batch = 0; batch < steps; ++batch) EXPECT_EQ(batch - used(batch), std::min(batch, staleness));
      EXPECT_EQ(staleness, P - 1 - w);
    }
  }
}

TEST(PipeDream2BW, TwoVersionsAreEnoughAndEveryGradientIsOneUpdateLate) {
  const auto schedule = pipedream_2bw();
  for (const auto& shape : shapes_of("pipedream-2bw")) {
    const int m = shape.micro_batches, steps = 6;
    const auto order = unroll(schedule.order(shape), m, steps);
    std::vector<Worker> workers;
    for (const auto& actions : order.actions) workers.push_back(follow(actions, m));
    // The newest that every worker has for all of a batch: the first forward of it anywhere decides.
    const auto used = [&](int batch) {
      int version = batch;
      for (const auto& worker : workers) version = std::min(version, worker.newest_at_forward.at(batch));
      return version;
    };
    for (int w = 0; w < shape.workers; ++w) {
      const int staleness = schedule.staleness(schedule.order(shape), w);
      EXPECT_EQ(versions_needed(workers[static_cast<std::size_t>(w)], m, used), 1 + staleness) << shape.workers << " " << m;
      for (int batch = 0; batch < steps; ++batch) EXPECT_EQ(batch - used(batch), std::min(batch, staleness));
      EXPECT_EQ(staleness, std::min(1, shape.workers - 1));
    }
  }
}

TEST(SynchronousSchedules, EndAStepBeforeTheyBeginTheNext) {
  for (const auto& [name, summary, schedule, missing] : builtin_pipeline_schedules().entries()) {
    if (!schedule.synchronous) continue;
    for (const auto& shape : shapes_of(name)) {
      const auto order = schedule.order(shape);
      for (int worker = 0; worker < shape.workers; ++worker) {
        EXPECT_TRUE(warm_up(order, worker).empty());
        EXPECT_EQ(step_actions(order, worker, 0, 1), order.actions[static_cast<std::size_t>(worker)]);
        EXPECT_EQ(schedule.staleness(order, worker), 0);
      }
    }
  }
}

TEST(WarmUp, DoesTheForwardsThatNoStepDoes) {
  const auto order = pipedream().order({3, 1});
  EXPECT_EQ(warm_up(order, 0), (std::vector<Action>{{F, 0, 0, 0}, {F, 0, 0, 1}}));
  EXPECT_EQ(warm_up(order, 1), (std::vector<Action>{{F, 1, 0, 0}}));
  EXPECT_TRUE(warm_up(order, 2).empty());
  const auto buffered = pipedream_2bw().order({3, 4});
  EXPECT_EQ(warm_up(buffered, 0), (std::vector<Action>{{F, 0, 0, 0}, {F, 0, 1, 0}}));
}

TEST(Steps, LeaveOutForwardsOfBatchesThatDoNotExist) {
  const auto order = pipedream().order({3, 1});
  EXPECT_EQ(step_actions(order, 0, 0, 3), (std::vector<Action>{{F, 0, 0, 2}, {B, 0, 0}}));
  EXPECT_EQ(step_actions(order, 0, 1, 3), (std::vector<Action>{{B, 0, 0}}));
  EXPECT_EQ(warm_up(order, 0, 1), (std::vector<Action>{{F, 0, 0, 0}}));
  // Of more steps than the pipeline is deep, of fewer, and of one.
  EXPECT_EQ(unroll(order, 1, 3).actions[0], (std::vector<Action>{{F, 0, 0}, {F, 0, 1}, {F, 0, 2}, {B, 0, 0}, {B, 0, 1}, {B, 0, 2}}));
  EXPECT_EQ(unroll(order, 1, 1).actions[0], (std::vector<Action>{{F, 0, 0}, {B, 0, 0}}));
}

// A step of 2BW is 1F1B's steady state: with all steps as one batch, the order is 1F1B's.
TEST(PipeDream2BW, IsOneForwardOneBackwardWithoutTheFlush) {
  for (const int P : {1, 2, 3, 4})
    for (const int steps : {1, 2, 5}) {
      EXPECT_EQ(unroll(pipedream_2bw().order({P, 6}), 6, steps), one_forward_one_backward().order({P, 6 * steps}));
      EXPECT_EQ(unroll(pipedream().order({P, 1}), 1, steps), one_forward_one_backward().order({P, steps}));
    }
}

}  // namespace
}  // namespace ddl
