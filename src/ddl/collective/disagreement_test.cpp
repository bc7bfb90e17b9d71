#include <gtest/gtest.h>

#include "ddl/collective/testing.h"

// Ranks that do not ask for the same: on every transport, with every algorithm, every rank gets an error that says both
// and whose they are; none hangs. Who only sends in one with a root may be done with it before anybody can know: that
// rank hears it in the next one, here a barrier, or where messages are buffered, after the timeout.

namespace ddl {
namespace {

using testing::require;
using testing::run_group;

using Body = std::function<void(Communicator&)>;

constexpr const char* kNext = " barrier (dissemination) of 0 fp32";

/// Rank 1 asks for `other`, the rest for `usual`; every rank must say both, and which rank asks for what. Or, where there
/// is a next one, that some are there while others still are at the first.
void expect_disagreement(const std::string& transport, int ranks, const Body& usual, const Body& other,
                         const std::string& usual_words, const std::string& other_words, bool next) {
  const auto begin = now();
  // On hosts of two ranks each, so that hierarchical has something to do.
  CommunicatorOptions options{Seconds{2}};
  for (int rank = 0; rank < ranks; ++rank) options.hosts.push_back(rank / 2);
  const auto outcomes = run_group(transport, ranks, [&](Communicator& group) {
    (group.rank() == 1 ? other : usual)(group);
    if (next) group.barrier().wait();
  }, options);
  EXPECT_LT(seconds(now() - begin), 5);
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    ASSERT_TRUE(outcomes[rank]) << transport << " rank " << rank << " of " << ranks << ": " << usual_words << " and " << other_words;
    EXPECT_EQ(outcomes[rank]->code(), Code::invalid_argument) << outcomes[rank]->what();
    const std::string said = outcomes[rank]->what();
    const auto says = [&](const std::string& words, const char* whose) {
      const bool first = said.find(words + whose) != std::string::npos;
      return first || (next && said.find(kNext + std::string(whose)) != std::string::npos);
    };
    const bool one_of_both = said.find(other_words + " on rank 1") != std::string::npos || said.find(usual_words + " on rank ") != std::string::npos;
    EXPECT_TRUE(one_of_both && (next || says(other_words, " on rank 1")) && says(usual_words, " on rank "))
        << transport << " rank " << rank << " of " << ranks << ": " << said << "\n expected " << other_words << " on rank 1, " << usual_words;
  }
}

/// `what` of a rank for so many elements. Keeps the algorithm's name.
Body doing(Collective what, std::size_t elements, ElementType type = ElementType::fp32) {
  return [=, algorithm = std::string(what.algorithm)](Communicator& group) {
    std::vector<std::byte> data(elements * size_of(type));
    Collective kept = what;
    kept.algorithm = algorithm;
    group.run(kept, {data.data(), elements, type});
  };
}

Body one_after_the_other(const Body& first, const Body& then) {
  return [=](Communicator& group) {
    first(group);
    then(group);
  };
}

struct Named {
  Goal goal;
  std::string word;   // with options
  std::string shown;  // in errors
};

/// Every algorithm of every goal that all ranks take part in, and the transport's own where it has some.
std::vector<Named> algorithms() {
  static const auto registry = builtin_collectives();
  const auto names = testing::names_of(registry);
  std::vector<Named> all;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (const auto goal = registry.entries()[i].make.goal; goal != Goal::barrier && goal != Goal::point_to_point)
      all.push_back({goal, names[i], names[i]});
  for (const std::string word : {"ring[segment=1KiB]", "tree[segment=2KiB]", "double-tree[segment=512B]", "hierarchical[within=ring,between=recursive-doubling]"})
    all.push_back({Goal::all_reduce, word, fmt::format("{}[options {:03x}]", word.substr(0, word.find('[')), choose_algorithm(Goal::all_reduce, word).options)});
  if (testing::native_under_test()) all.push_back({Goal::all_reduce, "native", "native"});
  return all;
}

class CollectiveDisagreement : public ::testing::TestWithParam<std::string> {
 protected:
  void expect(int ranks, const Body& usual, const Body& other, const std::string& usual_words, const std::string& other_words,
              bool next = false) {
    expect_disagreement(GetParam(), ranks, usual, other, usual_words, other_words, next);
  }
};

TEST_P(CollectiveDisagreement, OnSizeTypeAndGoal) {
  for (const int ranks : testing::possible({2, 5}))
    for (const auto& [goal, word, shown] : algorithms()) {
      const auto words = [&, &goal = goal, &shown = shown](const char* rest) {
        return fmt::format("#1 {} ({}{}{}) of {}", name(goal), shown, reduces(goal) ? ", sum" : "", has_root(goal) ? ", root 0" : "", rest);
      };
      const Collective what{goal, ReduceOp::sum, word};
      // Of sizes that every number of ranks divides, for all-to-all.
      const auto usual = doing(what, 600);
      expect(ranks, usual, doing(what, 300), words("600 fp32"), words("300 fp32"), has_root(goal));
      expect(ranks, usual, doing(what, 600, ElementType::int32), words("600 fp32"), words("600 int32"), has_root(goal));
      expect(ranks, usual, [](Communicator& group) { group.barrier().wait(); }, words("600 fp32"), "#1 barrier (dissemination) of 0 fp32", has_root(goal));
    }
}

TEST_P(CollectiveDisagreement, OnTheOperation) {
  for (const int ranks : testing::possible({2, 3, 5}))
    for (const auto& [goal, word, shown] : algorithms()) {
      if (!reduces(goal)) continue;
      const auto words = [&, &goal = goal, &shown = shown](const char* op) {
        return fmt::format("#1 {} ({}, {}{}) of 400 fp32", name(goal), shown, op, has_root(goal) ? ", root 0" : "");
      };
      expect(ranks, doing({goal, ReduceOp::sum, word}, 400), doing({goal, ReduceOp::max, word}, 400), words("sum"), words("max"), has_root(goal));
    }
}

TEST_P(CollectiveDisagreement, OnTheRoot) {
  for (const int ranks : testing::possible({2, 5}))
    for (const auto& [goal, word, shown] : algorithms()) {
      if (!has_root(goal)) continue;
      const auto words = [&, &goal = goal, &shown = shown](int root) {
        return fmt::format("#1 {} ({}{}, root {}) of 400 fp32", name(goal), shown, reduces(goal) ? ", sum" : "", root);
      };
      for (const int root : {0, ranks - 1}) {
        const int another = (root + 1) % ranks;
        expect(ranks, doing({goal, ReduceOp::sum, word, 1, root}, 400), doing({goal, ReduceOp::sum, word, 1, another}, 400), words(root), words(another), true);
      }
    }
}

TEST_P(CollectiveDisagreement, OnTheAlgorithm) {
  // Each with the next of its goal.
  const auto all = algorithms();
  for (const int ranks : testing::possible({2, 5}))
    for (std::size_t i = 0; i + 1 < all.size(); ++i) {
      const auto &usual = all[i], &other = all[i + 1];
      if (usual.goal != other.goal || usual.shown == other.shown) continue;
      const auto words = [&](const Named& each) {
        return fmt::format("#1 {} ({}{}{}) of 400 fp32", name(each.goal), each.shown, reduces(each.goal) ? ", sum" : "", has_root(each.goal) ? ", root 0" : "");
      };
      expect(ranks, doing({usual.goal, ReduceOp::sum, usual.word}, 400), doing({other.goal, ReduceOp::sum, other.word}, 400), words(usual), words(other), has_root(usual.goal));
    }
}

TEST_P(CollectiveDisagreement, OnTheOptionsOfAnAlgorithm) {
  const auto words = [](const std::string& word) {
    const auto digest = choose_algorithm(Goal::all_reduce, word).options;
    return fmt::format("#1 all-reduce ({}{}, sum) of 400 fp32", word.substr(0, word.find('[')), digest != 0 ? fmt::format("[options {:03x}]", digest) : "");
  };
  const std::vector<std::pair<std::string, std::string>> pairs{{"ring", "ring[segment=1KiB]"}, {"tree[segment=1KiB]", "tree[segment=2KiB]"},
                                                               {"hierarchical[between=recursive-doubling]", "hierarchical[between=star]"}};
  for (const auto& [usual, other] : pairs)
    for (const int ranks : testing::possible({2, 5}))
      expect(ranks, doing({Goal::all_reduce, ReduceOp::sum, usual}, 400), doing({Goal::all_reduce, ReduceOp::sum, other}, 400), words(usual), words(other), false);
}

TEST_P(CollectiveDisagreement, OnTheOrder) {
  const auto a = doing({Goal::all_reduce, ReduceOp::sum, "ring"}, 100), b = doing({Goal::all_gather, ReduceOp::sum, "direct"}, 300);
  const auto c = doing({Goal::all_reduce, ReduceOp::sum, "direct"}, 20);
  const std::string a_words = "all-reduce (ring, sum) of 100 fp32", b_words = "all-gather (direct) of 300 fp32", c_words = "all-reduce (direct, sum) of 20 fp32";
  for (const int ranks : testing::possible({2, 3, 5})) {
    expect(ranks, one_after_the_other(a, b), one_after_the_other(b, a), "#1 " + a_words, "#1 " + b_words);
    // One is left out, after some that all agree on.
    expect(ranks, one_after_the_other(a, one_after_the_other(b, c)), one_after_the_other(a, one_after_the_other(c, c)), "#2 " + b_words, "#2 " + c_words);
  }
}

TEST_P(CollectiveDisagreement, OnASentMessage) {
  const auto words = [](int elements) { return fmt::format("#1 point-to-point (from 0 to 1) of {} fp32", elements); };
  for (const int ranks : testing::possible({2}))
    expect(ranks, doing({Goal::point_to_point, ReduceOp::sum, "direct", 1, 0, 1}, 400), doing({Goal::point_to_point, ReduceOp::sum, "direct", 1, 0, 1}, 300), words(400), words(300), true);
}

TEST_P(CollectiveDisagreement, OnMakingAGroup) {
  const auto make = [](Communicator& all) {
    std::vector<int> ranks;
    for (int rank = 0; rank < all.size(); ++rank) ranks.push_back(rank);
    all.group(ranks);
  };
  for (const int ranks : testing::possible({2, 3, 5}))
    expect(ranks, make, [](Communicator& group) { group.barrier().wait(); }, "making a group", "#1 barrier (dissemination) of 0 fp32");
}

INSTANTIATE_TEST_SUITE_P(Builtin, CollectiveDisagreement, ::testing::ValuesIn(testing::transports_under_test()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace ddl
