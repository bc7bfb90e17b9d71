#include "ddl/predict/price.h"

#include <cmath>

#include <gtest/gtest.h>

#include "ddl/collective/algorithms.h"
#include "ddl/core/error.h"
#include "ddl/predict/simulate.h"

namespace ddl {
namespace {

constexpr UnitCosts kCosts{5e-6, 1e-6, 1e-9, 0, 4e-10, 3e-10};
constexpr std::size_t kElement = 4;

ScheduleGroup grouped(Goal goal, const std::string& word, int ranks, std::size_t elements) {
  const auto chosen = choose_algorithm(goal, word);
  CollectiveShape shape{ranks, elements};
  shape.peer = ranks > 1 ? 1 : 0;
  shape.segment = chosen.segment_bytes / kElement;
  return group_schedules(chosen.algorithm, shape, kElement);
}

/// The word after the goal, as choose_algorithm() takes it.
std::string word_of(const std::string& registered) { return registered.substr(registered.find('/') == std::string::npos ? 0 : registered.find('/') + 1); }

// Rounds, messages, bytes and reduced bytes of the published formulas, for n that P divides and P a power of two.
TEST(Price, IsThePublishedFormulaWhereThereIsOne) {
  for (const int p : {2, 4, 8, 16}) {
    const std::size_t elements = 1 << 16;
    const double n = static_cast<double>(elements * kElement), lg = std::log2(p), share = (p - 1.0) / p;
    const struct {
      Goal goal;
      const char* algorithm;
      Counts counts;
    } published[] = {
        {Goal::all_reduce, "ring", {2.0 * (p - 1), 4.0 * (p - 1), 2 * share * n, 0, share * n}},                    // Patarasuk & Yuan 2009
        {Goal::all_reduce, "direct", {2.0 * (p - 1), 4.0 * (p - 1), 2 * share * n, 0, share * n}},                  // Thakur et al. 2005, pairwise
        {Goal::all_reduce, "recursive-doubling", {lg, 2 * lg, lg * n, 0, 0, lg * n}},                                   // Thakur et al. 2005; in place, through scratch
        {Goal::all_reduce, "halving-doubling", {2 * lg, 4 * lg, 2 * share * n, 0, share * n}},                      // Rabenseifner, in Thakur et al. 2005
        {Goal::broadcast, "binomial", {lg, lg, lg * n, 0, 0}},                                                      // Thakur et al. 2005
        {Goal::reduce, "binomial", {lg, lg, lg * n, 0, lg * n}},                                                    // Thakur et al. 2005
        {Goal::reduce_scatter, "ring", {p - 1.0, 2 * (p - 1.0), share * n, 0, share * n}},                                // Patarasuk & Yuan 2009
        {Goal::all_gather, "ring", {p - 1.0, 2 * (p - 1.0), share * n, 0, 0}},                                            // Thakur et al. 2005
        {Goal::all_to_all, "direct", {p - 1.0, 2 * (p - 1.0), share * n, 0, 0, share * n}},                               // the same, and copied once: it is in place
        {Goal::barrier, "dissemination", {lg, 2 * lg, 0, 0, 0}},                                                        // Hensgen, Finkel & Manber 1988
    };
    for (const auto& [goal, algorithm, counts] : published) {
      const auto priced = price(grouped(goal, algorithm, p, elements), kCosts);
      EXPECT_NEAR(priced.seconds, kCosts.seconds(counts), 1e-12) << name(goal) << " " << algorithm << " " << p;
    }
  }
}

// Sanders, Speck & Träff 2009: two trees carry half each, so that large buffers cost 2n beta instead of a tree's 2n lg P
// unpipelined, and both ways of every link are busy.
TEST(Price, TwoTreesCostLittleMoreThanTwiceTheBytes) {
  const std::size_t elements = 1 << 24;
  const double n = static_cast<double>(elements * kElement);
  const UnitCosts bytes_only{0, 0, 1e-9};
  for (const int p : {4, 8, 16}) {
    const double one = price(grouped(Goal::all_reduce, "tree", p, elements), bytes_only).seconds / (n * 1e-9);
    const double two = price(grouped(Goal::all_reduce, "double-tree", p, elements), bytes_only).seconds / (n * 1e-9);
    EXPECT_NEAR(one, p == 4 ? 3 : 4, 0.05) << p;
    EXPECT_NEAR(two, 2, 0.05) << p;
  }
}

TEST(Price, EveryAlgorithmHasOneAndSendsWhatItsSchedulesSay) {
  for (const auto registry = builtin_collectives(); const auto& entry : registry.entries())
    for (const int ranks : {1, 2, 3, 5, 8}) {
      if (entry.make.goal == Goal::point_to_point && ranks == 1) continue;
      const std::size_t elements = 840;
      CollectiveShape shape{ranks, elements};
      shape.peer = ranks > 1 ? 1 : 0;
      const auto group = grouped(entry.make.goal, word_of(entry.name), ranks, elements);
      for (int rank = 0; rank < ranks; ++rank)
        EXPECT_EQ(group.bytes_sent[static_cast<std::size_t>(rank)], elements_sent(entry.make.schedule(rank, shape)) * kElement) << entry.name;
      const auto priced = price(group, kCosts);
      EXPECT_NEAR(priced.seconds, kCosts.seconds(priced.counts), 1e-12) << entry.name;
      if (ranks > 1) { EXPECT_GT(priced.seconds, 0) << entry.name; }
    }
}

TEST(Simulate, EqualsThePriceWhereNothingIsShared) {
  for (const auto registry = builtin_collectives(); const auto& entry : registry.entries())
    for (const int ranks : {2, 3, 4, 7, 16}) {
      const auto group = grouped(entry.make.goal, word_of(entry.name), ranks, 1680);
      const auto simulated = simulate(group, kCosts, {});
      EXPECT_NEAR(simulated.seconds, price(group, kCosts).seconds, 1e-12) << entry.name << " " << ranks;
      EXPECT_EQ(simulated.bytes_sent, group.bytes_sent) << entry.name;
    }
}

TEST(Price, RefusesSchedulesThatDoNotMeet) {
  const Algorithm lonely = [](int rank, const CollectiveShape& shape) {
    Schedule schedule{rank, shape.ranks, shape.elements, {}};
    if (rank == 0) schedule.rounds.push_back({{StepKind::send, 1, {0, 1}}});
    return schedule;
  };
  EXPECT_THROW(group_schedules(lonely, {2, 4}, kElement), Error);
}

}  // namespace
}  // namespace ddl
