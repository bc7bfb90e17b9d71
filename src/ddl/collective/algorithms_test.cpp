#include <gtest/gtest.h>

#include "ddl/collective/communicator.h"

// verify() over every algorithm of the registry: no group is started.

namespace ddl {
namespace {

std::vector<std::string> names() { return builtin_collectives().names(); }

class AlgorithmConformance : public ::testing::TestWithParam<std::string> {};

TEST_P(AlgorithmConformance, VerifiesForEveryGroupAndSize) {
  const auto registry = builtin_collectives();
  const auto& algorithm = registry.at(GetParam()).make;
  for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 31, 32, 33, 63, 64})
    for (const std::size_t elements : {std::size_t{0}, std::size_t{1}, static_cast<std::size_t>(ranks - 1),
                                       static_cast<std::size_t>(ranks), static_cast<std::size_t>(ranks + 1),
                                       std::size_t{100'003}, std::size_t{100'000'000}})
      for (const int root : {0, ranks / 2, ranks - 1}) {
        if (algorithm.goal != Goal::broadcast && root != 0) continue;
        const auto findings = verify(algorithm.schedule, {ranks, elements, root}, algorithm.goal);
        ASSERT_EQ(findings, std::vector<std::string>{}) << ranks << " ranks, " << elements << " elements, root " << root;
      }
}

TEST(AllReduceAlgorithms, SendTheLeastThatIsPossible) {
  const auto registry = builtin_collectives();
  for (const std::string name : {"ring", "direct"})
    for (const int ranks : {2, 3, 8}) {
      std::size_t sent = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const auto schedule = registry.at(name).make.schedule(rank, {ranks, 1001, 0});
        EXPECT_EQ(schedule.rounds.size(), static_cast<std::size_t>(2 * (ranks - 1)));
        for (const auto& round : schedule.rounds)
          for (const auto& step : round) sent += step.kind == StepKind::send ? step.range.size() : 0;
      }
      EXPECT_EQ(sent, 2 * static_cast<std::size_t>(ranks - 1) * 1001) << name << " " << ranks;
    }
}

TEST(BinomialBroadcast, TakesLogarithmicallyManyRounds) {
  const auto schedule = builtin_collectives().at("broadcast").make.schedule;
  EXPECT_EQ(schedule(0, {64, 10, 0}).rounds.size(), 6U);
  EXPECT_EQ(schedule(63, {64, 10, 0}).rounds.size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(Builtin, AlgorithmConformance, ::testing::ValuesIn(names()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace ddl
