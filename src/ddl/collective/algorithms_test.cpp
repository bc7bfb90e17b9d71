#include "ddl/collective/algorithms.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "ddl/collective/algorithms/algorithms.h"
#include "ddl/collective/algorithms/tree.h"

// verify() over every algorithm of the registry: no group is started.

namespace ddl {
namespace {

std::vector<std::string> names() { return builtin_collectives().names(); }

/// Several forms of an algorithm that has options.
std::vector<Spec> forms(const CollectiveAlgorithm& algorithm) {
  std::vector<Spec> all{{}};
  if (algorithm.options == std::vector<std::string>{"within", "between"}) {
    all.push_back({"", {{"within", "ring"}, {"between", "halving-doubling"}}});
    all.push_back({"", {{"between", "double-tree"}}});
  }
  return all;
}

std::vector<int> roots_of(Goal goal, int ranks) {
  if (!has_root(goal)) return {0};
  return {0, ranks / 2, ranks - 1};
}

class AlgorithmConformance : public ::testing::TestWithParam<std::string> {};

TEST_P(AlgorithmConformance, VerifiesForEveryGroupAndSize) {
  const auto registry = builtin_collectives();
  const auto& algorithm = registry.at(GetParam()).make;
  for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 31, 32, 33, 64})
    for (std::size_t elements : {std::size_t{0}, std::size_t{1}, static_cast<std::size_t>(ranks - 1),
                                 static_cast<std::size_t>(ranks), static_cast<std::size_t>(ranks + 1),
                                 std::size_t{100'003}, std::size_t{100'000'000}}) {
      if (algorithm.goal == Goal::all_to_all) elements = elements / static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks);
      for (const int root : roots_of(algorithm.goal, ranks)) {
        CollectiveShape shape{ranks, elements, root, (root + 1) % ranks};
        // A few segments each, and hosts of equal and of different size.
        shape.segment = elements > 1000 ? elements / 37 : 0;
        for (const int per_host : {0, 1, 2, 3}) {
          shape.hosts.clear();
          for (int rank = 0; per_host != 0 && rank < ranks; ++rank) shape.hosts.push_back(rank / per_host);
          if (per_host != 0 && (GetParam() != "hierarchical" || ranks > 33)) continue;
          for (const auto& form : forms(algorithm))
            ASSERT_EQ(verify(algorithm.with(form), shape, algorithm.goal), std::vector<std::string>{})
                << ranks << " ranks, " << elements << " elements, root " << root << ", " << per_host << " a host, " << to_string(form);
        }
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Builtin, AlgorithmConformance, ::testing::ValuesIn(names()), [](const auto& test) {
  auto name = test.param;
  std::replace_if(name.begin(), name.end(), [](char c) { return c == '-' || c == '/'; }, '_');
  return name;
});

std::size_t sent_by_all(const std::string& name, const CollectiveShape& shape) {
  const auto algorithm = builtin_collectives().at(name).make.with({});
  std::size_t sum = 0;
  for (int rank = 0; rank < shape.ranks; ++rank) sum += elements_sent(algorithm(rank, shape));
  return sum;
}

TEST(AllReduceAlgorithms, SendWhatTheirFormulasSay) {
  const std::size_t n = 9600;
  for (const std::size_t p : {2U, 4U, 8U, 16U}) {
    const CollectiveShape shape{static_cast<int>(p), n};
    std::size_t log = 0;
    while (std::size_t{1} << log < p) ++log;
    for (const std::string least : {"ring", "direct", "halving-doubling"}) EXPECT_EQ(sent_by_all(least, shape), 2 * (p - 1) * n) << least << p;
    EXPECT_EQ(sent_by_all("recursive-doubling", shape), p * log * n);
    for (const std::string over_edges : {"tree", "double-tree", "star"}) EXPECT_EQ(sent_by_all(over_edges, shape), 2 * (p - 1) * n) << over_edges << p;
  }
  // Where P is no power of two, the extra ranks' buffers move twice more.
  EXPECT_EQ(sent_by_all("halving-doubling", {5, n}), 2 * 3 * n + 2 * n);
  EXPECT_EQ(sent_by_all("recursive-doubling", {6, n}), 4 * 2 * n + 2 * 2 * n);
}

TEST(AllReduceAlgorithms, TakeAsManyRoundsAsTheirFormulasSay) {
  const auto rounds = [](const std::string& name, int ranks, std::size_t segment = 0) {
    CollectiveShape shape{ranks, 1000};
    shape.segment = segment;
    return builtin_collectives().at(name).make.schedule(ranks - 1, shape).rounds.size();
  };
  EXPECT_EQ(rounds("ring", 8), 14U);
  EXPECT_EQ(rounds("direct", 8), 14U);
  EXPECT_EQ(rounds("halving-doubling", 8), 6U);
  EXPECT_EQ(rounds("recursive-doubling", 8), 6U);  // three exchanges, each followed by a local sum
  EXPECT_EQ(rounds("ring", 5, 50), 8 * 4U);         // slices of 200 in 4 chunks
}

TEST(Ring, PassesOnAChunkBeforeItHasTheWholeSlice) {
  CollectiveShape shape{4, 4000};
  shape.segment = 250;
  const auto schedule = ring_all_reduce(1, shape);
  // Slice 0 comes in during rounds 0 to 3 and leaves from round 4 on, chunk by chunk in the same order.
  for (std::size_t chunk = 0; chunk < 4; ++chunk) EXPECT_EQ(schedule.rounds[chunk][1].range, schedule.rounds[4 + chunk][0].range);
  for (const auto& round : schedule.rounds)
    for (const auto& step : round) EXPECT_LE(step.range.size(), 250U);
}

TEST(DoubleTree, MakesEveryRankButOneALeafOfOneTree) {
  for (const int ranks : {2, 3, 4, 5, 8, 9, 16, 33}) {
    const auto first = in_order_tree(ranks), second = complementary_tree(ranks);
    int inner_in_both = 0;
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) {
      const auto inner = [&](const BinaryTree& tree) { return tree.nodes[rank].children != std::array{kNobody, kNobody}; };
      inner_in_both += inner(first) && inner(second) ? 1 : 0;
    }
    EXPECT_LE(inner_in_both, 1) << ranks;
    EXPECT_LE(first.depth, 6);
  }
}

TEST(DoubleTree, LetsNoRankDealWithBothParentsOrBothChildrenInOneTurn) {
  for (int ranks = 1; ranks <= 70; ++ranks) {
    std::vector trees{in_order_tree(ranks), complementary_tree(ranks)};
    take_turns(trees[0], trees[1]);
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) {
      const auto &a = trees[0].nodes[rank], &b = trees[1].nodes[rank];
      if (a.parent != kNobody && b.parent != kNobody) { EXPECT_NE(a.turn, b.turn) << rank << " of " << ranks; }
      for (const auto& tree : trees)
        if (const auto [left, right] = tree.nodes[rank].children; left != kNobody && right != kNobody) {
          EXPECT_NE(tree.nodes[static_cast<std::size_t>(left)].turn, tree.nodes[static_cast<std::size_t>(right)].turn) << rank << " of " << ranks;
        }
    }
  }
}

TEST(Hierarchical, SendsBetweenHostsAsLittleAsOneRankPerHostWould) {
  CollectiveShape shape{8, 8000};
  shape.hosts = {0, 0, 0, 0, 1, 1, 1, 1};
  const auto algorithm = builtin_collectives().at("hierarchical").make.with({});
  std::size_t crossing = 0;
  for (int rank = 0; rank < 8; ++rank)
    for (const auto& round : algorithm(rank, shape).rounds)
      for (const auto& step : round)
        if (step.kind == StepKind::send && shape.hosts[static_cast<std::size_t>(rank)] != shape.hosts[static_cast<std::size_t>(step.peer)])
          crossing += step.range.size();
  EXPECT_EQ(crossing, 2 * 8000U);  // 2(H-1)/H n from each of H = 2 hosts
}

TEST(BinomialBroadcast, TakesLogarithmicallyManyRounds) {
  EXPECT_EQ(binomial_broadcast(0, {64, 10, 0}).rounds.size(), 6U);
  EXPECT_EQ(binomial_broadcast(63, {64, 10, 0}).rounds.size(), 1U);
}

TEST(AllToAll, RefusesPartsOfDifferentSizes) { EXPECT_THROW(direct_all_to_all(0, {3, 10}), Error); }

TEST(ChooseAlgorithm, TakesOptionsAndRefusesWhatItDoesNotHave) {
  EXPECT_EQ(choose_algorithm(Goal::all_reduce, "ring[segment=64KiB]").segment_bytes, 65536U);
  EXPECT_EQ(choose_algorithm(Goal::broadcast, "binomial").index, choose_algorithm(Goal::broadcast, "binomial").index);
  const auto code = [](Goal goal, const char* text) {
    try {
      choose_algorithm(goal, text);
    } catch (const Error& error) {
      return error.code();
    }
    return Code::io;
  };
  EXPECT_EQ(code(Goal::all_reduce, "rign"), Code::not_found);
  EXPECT_EQ(code(Goal::all_reduce, "broadcast/binomial"), Code::invalid_argument);
  EXPECT_EQ(code(Goal::all_reduce, "direct[segment=1KiB]"), Code::invalid_argument);
  EXPECT_EQ(code(Goal::all_reduce, "ring[segment=1K]"), Code::invalid_argument);
}

}  // namespace
}  // namespace ddl
