#include "ddl/plan/schedule.h"

#include <gtest/gtest.h>

namespace ddl {
namespace {

constexpr auto kSend = StepKind::send;
constexpr auto kReceive = StepKind::receive;
constexpr auto kReduce = StepKind::reduce;

/// Two ranks that swap halves, reduce, and swap back: the smallest correct all-reduce, for tests to break.
Schedule swap_halves(int rank, const CollectiveShape& shape) {
  const int peer = 1 - rank;
  const Range mine = part_of(shape.elements, 2, rank);
  const Range theirs = part_of(shape.elements, 2, peer);
  return {rank, 2, shape.elements,
          {{{kSend, peer, theirs}, {kReduce, peer, mine}}, {{kSend, peer, mine}, {kReceive, peer, theirs}}}};
}

std::vector<std::string> findings_after(const std::function<void(Schedule&)>& breakage, Goal goal = Goal::all_reduce) {
  const Algorithm broken = [&](int rank, const CollectiveShape& shape) {
    auto schedule = swap_halves(rank, shape);
    breakage(schedule);
    return schedule;
  };
  return verify(broken, {2, 5, 0}, goal);
}

bool mentions(const std::vector<std::string>& findings, std::string_view text) {
  for (const auto& finding : findings)
    if (finding.find(text) != std::string::npos) return true;
  return false;
}

#define EXPECT_FINDING(findings, text) \
  EXPECT_TRUE(mentions(findings, text)) << (findings.empty() ? "no findings" : findings.front())

TEST(PartOf, CoversEverythingWithSizesThatDifferByAtMostOne) {
  for (const std::size_t elements : {0UL, 1UL, 7UL, 8UL, 100003UL, 5000000011UL})
    for (const int parts : {1, 2, 3, 8, 13}) {
      std::size_t at = 0;
      for (int part = 0; part < parts; ++part) {
        const Range range = part_of(elements, parts, part);
        EXPECT_EQ(range.begin, at);
        EXPECT_LE(range.size() - elements / static_cast<std::size_t>(parts), 1U);
        at = range.end;
      }
      EXPECT_EQ(at, elements);
    }
}

TEST(VerifySchedule, AcceptsACorrectOneOfAnySize) {
  for (const std::size_t elements : {0UL, 1UL, 5UL, 100'000'000UL})
    EXPECT_EQ(verify(swap_halves, {2, elements, 0}, Goal::all_reduce), std::vector<std::string>{});
}

TEST(VerifySchedule, FindsADeadlock) {
  const auto findings = findings_after([](Schedule& s) {
    const auto& [first, second] = std::pair(s.rounds[0][0], s.rounds[0][1]);
    s.rounds = {{second}, {first}};  // both reduce before they send
  });
  EXPECT_FINDING(findings, "deadlock: rank 0 round 0 waits to reduce [0, 3) peer 1");
  EXPECT_FINDING(findings, "deadlock: rank 1 round 0 waits to reduce [3, 5) peer 0");
}

TEST(VerifySchedule, FindsAnUnmatchedMessage) {
  const auto findings = findings_after([](Schedule& s) {
    if (s.rank == 1) s.rounds.pop_back();
  });
  EXPECT_FINDING(findings, "rank 0 round 1: send [0, 3) peer 1 is unmatched");
}

TEST(VerifySchedule, FindsAWrongLength) {
  const auto findings = findings_after([](Schedule& s) {
    if (s.rank == 1) s.rounds[0][0].range.end -= 1;
  });
  EXPECT_FINDING(findings,
                 "rank 0 round 0: reduce from rank 1 has another length; got 2 elements (its round 0), expected 3");
}

TEST(VerifySchedule, FindsOtherElements) {
  const auto findings = findings_after([](Schedule& s) {
    if (s.rank == 1) s.rounds[0][0].range = {1, 4};
  });
  EXPECT_FINDING(findings, "rank 0 round 0: reduce [0, 2) from rank 1 (its round 0) is of other elements; got those of [1, 3), "
                           "expected those of [0, 2)");
}

TEST(VerifySchedule, FindsARangeUsedTwice) {
  const auto findings = findings_after([](Schedule& s) { s.rounds[1][1].range = {0, 5}; });
  EXPECT_FINDING(findings, "rank 0 round 1: send [0, 3) peer 1 overlaps receive [0, 5) peer 1");
}

TEST(VerifySchedule, FindsAnInputCountedTwice) {
  const auto findings = findings_after([](Schedule& s) { s.rounds.insert(s.rounds.begin(), s.rounds[0]); });
  EXPECT_FINDING(findings, "rank 0 elements [0, 3): wrong result; got rank 0 + 2 x rank 1, expected each of 2 ranks'");
}

TEST(VerifySchedule, FindsAMissingInput) {
  const auto findings = findings_after([](Schedule& s) { s.rounds.pop_back(); });
  EXPECT_FINDING(findings, "rank 0 elements [3, 5): wrong result; got rank 0, expected each of 2 ranks' input once");
}

TEST(VerifySchedule, FindsDifferentBitsFromTheSameInputs) {
  const Algorithm three = [](int rank, const CollectiveShape& shape) {
    // 0 and 1 get (0+1)+2; 2 gets (0+2)+1.
    constexpr Range all{0, 1};
    Schedule s{rank, 3, shape.elements, {}};
    if (rank == 0) s.rounds = {{{kSend, 2, all}}, {{kReduce, 1, all}}, {{kReduce, 2, all}}, {{kSend, 1, all}}};
    if (rank == 1) s.rounds = {{{kSend, 0, all}}, {{kSend, 2, all}}, {{kReceive, 0, all}}};
    if (rank == 2) {
      s.scratch = 1;
      s.rounds = {{{kReceive, 0, {1, 2}}}, {{kSend, 0, all}}, {{StepKind::combine, kNobody, all, 1}}, {{kReduce, 1, all}}};
    }
    return s;
  };
  EXPECT_FINDING(verify(three, {3, 1, 0}, Goal::all_reduce), "rank 2 elements [0, 1): reduced in another order");
}

TEST(VerifySchedule, FindsAPeerOrRangeThatDoesNotExist) {
  EXPECT_FINDING(findings_after([](Schedule& s) { s.rounds[0][0].peer = 2; }), "no such peer; got 2");
  EXPECT_FINDING(findings_after([](Schedule& s) { s.rounds[0][0].peer = s.rank; }), "no such peer; got 0");
  EXPECT_FINDING(findings_after([](Schedule& s) { s.rounds[0][0].range = {4, 6}; }), "out of the buffer; got [4, 6)");
  EXPECT_FINDING(findings_after([](Schedule& s) { s.ranks = 3; }), "the schedule is another's");
}

TEST(VerifySchedule, FindsABroadcastOfAnothersInput) {
  const Algorithm nothing = [](int rank, const CollectiveShape& s) { return Schedule{rank, s.ranks, s.elements, {}}; };
  EXPECT_FINDING(verify(nothing, {2, 3, 1}, Goal::broadcast),
                 "rank 0 elements [0, 3): wrong result; got nothing, expected the input of root rank 1");
}

TEST(VerifySchedule, FindsABarrierThatLetsSomeoneThrough) {
  const Algorithm one_round = [](int rank, const CollectiveShape& s) {
    return Schedule{rank, s.ranks, 0,
                    {{{kSend, (rank + 1) % s.ranks, {}}, {kReceive, (rank + s.ranks - 1) % s.ranks, {}}}}};
  };
  EXPECT_EQ(verify(one_round, {2, 0, 0}, Goal::barrier), std::vector<std::string>{});
  EXPECT_FINDING(verify(one_round, {3, 0, 0}, Goal::barrier), "rank 0 may leave the barrier before rank 1 enters it");
}

TEST(VerifySchedule, FindsWhatIsSentBeforeItIsThere) {
  const Algorithm empty_handed = [](int rank, const CollectiveShape& s) {
    // Rank 1 gives on the part that it has not got yet.
    Schedule schedule{rank, 2, s.elements, {}};
    const Range first = part_of(s.elements, 2, 0), second = part_of(s.elements, 2, 1);
    if (rank == 0) schedule.rounds = {{{kReceive, 1, first}}, {{kReceive, 1, second}}};
    if (rank == 1) schedule.rounds = {{{kSend, 0, first}}, {{kSend, 0, second}}};
    return schedule;
  };
  EXPECT_FINDING(verify(empty_handed, {2, 4, 0}, Goal::gather),
                 "rank 0 round 0: receive [0, 2) from rank 1 (its round 0) takes what holds nothing yet");
}

TEST(VerifySchedule, FollowsElementsToOtherPlaces) {
  const Algorithm exchange = [](int rank, const CollectiveShape& s) {
    const Range theirs = part_of(s.elements, 2, 1 - rank);
    const Range stored{theirs.begin + s.elements, theirs.end + s.elements};
    return Schedule{rank, 2, s.elements,
                    {{{kSend, 1 - rank, theirs}, {kReceive, 1 - rank, stored}},
                     {{StepKind::copy, kNobody, theirs, stored.begin}}},
                    s.elements};
  };
  EXPECT_EQ(verify(exchange, {2, 10, 0}, Goal::all_to_all), std::vector<std::string>{});
  const Algorithm keeps = [&](int rank, const CollectiveShape& s) {
    auto schedule = exchange(rank, s);
    schedule.rounds[1][0].source -= s.elements;  // its own old part instead of what came
    return schedule;
  };
  EXPECT_FALSE(verify(keeps, {2, 10, 0}, Goal::all_to_all).empty());
}

TEST(Append, RunsAScheduleAmongMembersOnAPart) {
  Schedule whole{4, 6, 100, {}};
  append(whole, {1, 2, 10, {{{kSend, 0, {0, 5}}}, {{StepKind::combine, kNobody, {0, 5}, 12}}}, 20}, {2, 4}, 30);
  EXPECT_EQ(whole.scratch, 20U);
  EXPECT_EQ(whole.rounds[0][0], (Step{kSend, 2, {30, 35}}));
  EXPECT_EQ(whole.rounds[1][0].range, (Range{30, 35}));
  EXPECT_EQ(whole.rounds[1][0].source, 102U);
}

}  // namespace
}  // namespace ddl
