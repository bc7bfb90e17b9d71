#include "ddl/predict/explain/causes.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ddl/predict/explain/explain_testing.h"

namespace ddl {
namespace {

/// Tasks of a data-parallel worker with two buckets at least.
struct Tasks {
  int backward = kNone, first = kNone, second = kNone, update = kNone;  ///< `first`, `second`: the first two all-reduces of gradients
};

Tasks tasks_of(const Role& role) {
  Tasks out;
  for (int t = 0; t < static_cast<int>(role.tasks.size()); ++t) {
    const auto& task = role.tasks[static_cast<std::size_t>(t)];
    if (task.kind == TaskKind::backward) out.backward = t;
    if (task.kind == TaskKind::update) out.update = t;
    if (task.kind != TaskKind::collective || task.cargo != Cargo::gradients) continue;
    if (out.first == kNone) out.first = t;
    else if (out.second == kNone) out.second = t;
  }
  return out;
}

constexpr Nanoseconds us(int number) { return number * Nanoseconds{1000}; }

/// Two workers do the same: 100 us of backward and 40 of an update; the first collective from 20 to 60, the second from 40 to 120, where there are any.
TracedStep made_step(const Tasks& tasks, std::int64_t number, bool exchanges) {
  TracedStep out{number, {{0, us(140)}, {0, us(140)}}, {}};
  for (std::int16_t worker = 0; worker < 2; ++worker) {
    const auto add = [&](int task, int begin, int end, Stream stream, Cause cause, std::uint32_t meeting) { out.spans.push_back({us(begin), us(end), static_cast<std::int32_t>(number), task, worker, stream, cause, meeting}); };
    add(tasks.backward, 0, 100, Stream::compute, Cause::backward, 0);
    add(tasks.update, 100, 140, Stream::compute, Cause::update, 0);
    if (!exchanges) continue;
    add(tasks.first, 20, 60, Stream::communication, Cause::communication, 1);
    add(tasks.second, 40, 120, Stream::communication, Cause::communication, 2);
  }
  return out;
}

const Overlap* overlap_of(const std::vector<Overlap>& overlaps, int compute, int collective) {
  for (const auto& overlap : overlaps)
    if (overlap.compute == compute && overlap.collective == collective) return &overlap;
  return nullptr;
}

class Beside : public testing::Test {
 protected:
  const Plan plan = plan_of("data[bucket=100KiB,first-bucket=10KiB]", 2);
  const Tasks tasks = tasks_of(plan.roles[0]);

  void SetUp() override {
    for (const int task : {tasks.backward, tasks.first, tasks.second, tasks.update}) ASSERT_NE(task, kNone);
  }

  /// These two take twice as long beside them what is computed.
  KnownCosts slowing() const {
    KnownCosts known;
    for (int worker = 0; worker < 2; ++worker) {
      auto& own = known.beside.emplace_back(plan.roles[0].tasks.size());
      own[static_cast<std::size_t>(tasks.first)].compute = own[static_cast<std::size_t>(tasks.second)].compute = 2;
    }
    return known;
  }

  int bucket_of(int task) const { return plan.roles[0].tasks[static_cast<std::size_t>(task)].waits_for; }
};

// Where two collectives go on at once, what is computed meanwhile stands with the one that began first.
TEST_F(Beside, ComputingStandsWithTheCollectiveThatBeganFirst) {
  const auto draws = step_draws(plan, {made_step(tasks, 1, true)}, true);
  const auto& overlaps = draws.medians.overlaps[0];
  const auto* first = overlap_of(overlaps, tasks.backward, tasks.first);
  const auto* second = overlap_of(overlaps, tasks.backward, tasks.second);
  const auto* update = overlap_of(overlaps, tasks.update, tasks.second);
  ASSERT_TRUE(first && second && update);
  EXPECT_EQ(overlaps.size(), 3U);
  EXPECT_NEAR(first->seconds, 40e-6, 1e-12);
  EXPECT_NEAR(first->alone, 40e-6, 1e-12);
  EXPECT_NEAR(first->from, 0.2, 1e-9);
  EXPECT_NEAR(first->to, 0.6, 1e-9);
  EXPECT_NEAR(second->seconds, 60e-6, 1e-12);
  EXPECT_NEAR(second->alone, 40e-6, 1e-12);
  EXPECT_NEAR(second->from, 0.6, 1e-9);
  EXPECT_NEAR(second->to, 1, 1e-9);
  EXPECT_NEAR(update->seconds, 20e-6, 1e-12);
  EXPECT_NEAR(update->alone, 20e-6, 1e-12);
}

// Of three steps one exchanges, as with every=3: the collective's own part is of that one, what a median backward loses is nothing.
TEST_F(Beside, StepsWithoutACollectiveCountForWhatIsComputedAlone) {
  const auto draws = step_draws(plan, {made_step(tasks, 1, true), made_step(tasks, 2, false), made_step(tasks, 3, false)}, true);
  const auto* first = overlap_of(draws.medians.overlaps[0], tasks.backward, tasks.first);
  ASSERT_NE(first, nullptr);
  EXPECT_NEAR(first->seconds, 40e-6, 1e-12);
  EXPECT_EQ(first->alone, 0);
  EXPECT_NEAR(first->from, 0.2, 1e-9);
  // Two of three do.
  const auto most = step_draws(plan, {made_step(tasks, 1, true), made_step(tasks, 2, true), made_step(tasks, 3, false)}, true);
  EXPECT_NEAR(overlap_of(most.medians.overlaps[0], tasks.backward, tasks.first)->alone, 40e-6, 1e-12);
}

// Backward would take 60 us: of 40 to 100 us half is lost. The second bucket's event at 40 us lies in the middle of what the first collective slowed, so it would come at 30.
TEST_F(Beside, EventsComeEarlierByWhatWasSlowedBeforeThem) {
  const auto draws = step_draws(plan, {made_step(tasks, 1, true)}, true);
  EXPECT_NEAR(draws.ready[0][static_cast<std::size_t>(bucket_of(tasks.first))], 0.2, 1e-9);
  EXPECT_NEAR(draws.ready[0][static_cast<std::size_t>(bucket_of(tasks.second))], 0.4, 1e-9);
  auto known = slowing();
  find_alone(plan, draws, known);
  EXPECT_NEAR(known.ready_alone[0][static_cast<std::size_t>(bucket_of(tasks.first))], 20.0 / 60, 1e-9);
  EXPECT_NEAR(known.ready_alone[0][static_cast<std::size_t>(bucket_of(tasks.second))], 30.0 / 60, 1e-9);
}

TEST_F(Beside, UpdatesBesideACollectiveAreSlowedToo) {
  const auto draws = step_draws(plan, {made_step(tasks, 1, true)}, true);
  auto known = slowing();
  find_alone(plan, draws, known);
  EXPECT_NEAR(known.compute_alone, 2 * 60e-6, 1e-12);
  // 20 of the 40 us of each worker's update.
  EXPECT_NEAR(known.other_alone, 2 * 30e-6, 1e-12);
  KnownCosts free;
  find_alone(plan, draws, free);
  EXPECT_NEAR(free.compute_alone, 2 * 100e-6, 1e-12);
  EXPECT_NEAR(free.other_alone, 2 * 40e-6, 1e-12);
  EXPECT_EQ(free.ready_alone, draws.ready);
}

}  // namespace
}  // namespace ddl
