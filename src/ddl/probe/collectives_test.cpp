#include "ddl/probe/collectives.h"

#include <mutex>

#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/probe/expected.h"
#include "ddl/transport/testing.h"

namespace ddl {
namespace {

ProbeSettings everything(const std::string& transport, int ranks) {
  ProbeSettings settings;
  settings.transport = transport;
  settings.options = {Seconds{20}, "secret"};
  settings.budget = {1e-4};
  for (const auto registry = builtin_collectives(); const auto& entry : registry.entries())
    for (const std::size_t elements : {12, 840}) {
      const auto slash = entry.name.find('/');
      settings.cases.push_back({entry.make.goal, entry.name.substr(slash == std::string::npos ? 0 : slash + 1),
                                elements / static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks) * 4});
    }
  return settings;
}

TEST(Probe, TimesAndChecksEveryAlgorithmOnEveryTransport) {
  for (const auto* transport : {"inproc", "shm", "tcp"})
    for (const int ranks : {2, 3}) {
      const auto settings = everything(transport, ranks);
      std::mutex mutex;
      std::vector<int> timed(settings.cases.size(), 0);
      int limits = 0;
      ProbeEvents events;
      events.timed = [&](std::size_t number, const ProbeTimes& times) {
        const std::lock_guard lock(mutex);
        ++timed[number];
        EXPECT_GE(times.size(), 7U);
        for (const double time : times) EXPECT_GT(time, 0);
      };
      events.limit = [&](std::size_t, const ProbeLimits& limit) {
        const std::lock_guard lock(mutex);
        ++limits;
        EXPECT_GT(limit.exchange, 0);
        EXPECT_EQ(limit.reduce > 0, std::string(transport) != "tcp");
      };
      const auto outcomes = testing::run_ranks(ranks, [&](Rendezvous& meeting) { probe_rank(meeting, settings, events); });
      EXPECT_EQ(testing::failure(outcomes), "") << transport << " " << ranks;
      for (const int times : timed) EXPECT_EQ(times, ranks) << transport;
      EXPECT_EQ(limits, 2 * ranks);
    }
}

// The check must be able to fail: for every goal, one element that is off by one is found.
TEST(ProbeCheck, FindsAWrongElementOfEveryGoal) {
  constexpr int kRanks = 3;
  for (const Goal goal : kGoals) {
    if (goal == Goal::barrier) continue;
    CollectiveShape shape{kRanks, 12, 1, 2};
    const int rank = goal == Goal::point_to_point ? 2 : 1;
    std::vector<float> data(12);
    // What the goal promises, by its definition, from the three inputs.
    std::vector<std::vector<float>> in(kRanks, std::vector<float>(12));
    for (int r = 0; r < kRanks; ++r) fill_for_check(in[static_cast<std::size_t>(r)], r);
    for (std::size_t i = 0; i < 12; ++i) {
      const auto owner = i / 4;
      switch (goal) {
        case Goal::all_reduce:
        case Goal::reduce:
        case Goal::reduce_scatter: data[i] = in[0][i] + in[1][i] + in[2][i]; break;
        case Goal::all_gather:
        case Goal::gather: data[i] = in[owner][i]; break;
        case Goal::all_to_all: data[i] = in[owner][4 + i % 4]; break;
        default: data[i] = in[1][i]; break;
      }
    }
    EXPECT_EQ(check_result(data, goal, shape, rank), std::nullopt) << name(goal);
    data[5] += 1;  // in part 1, which is rank 1's
    const auto wrong = check_result(data, goal, shape, rank);
    ASSERT_TRUE(wrong) << name(goal);
    EXPECT_NE(wrong->find("element 5"), std::string::npos) << *wrong;
  }
}

}  // namespace
}  // namespace ddl
