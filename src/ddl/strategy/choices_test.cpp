#include "ddl/strategy/choices.h"

#include <gtest/gtest.h>

#include <set>

#include "ddl/core/error.h"
#include "ddl/nn/builtin.h"
#include "ddl/strategy/builtin.h"

namespace ddl {
namespace {

ModelGraph lenet() { return builtin_models().at("lenet").make(parse_spec("lenet"), {1, 28, 28, 10}); }

TEST(StrategyChoices, EveryStrategyHasSome) {
  EXPECT_EQ(strategy_choices().names(), builtin_strategies().names());
}

// Where a search starts can be planned: on a network that is for all of them.
TEST(StrategyChoices, StartsArePlanned) {
  const auto graph = builtin_models().at("gpt").make(parse_spec("gpt[hidden=64,layers=8,heads=8,seq=16,vocab=256]"), {.classes = 256, .objective = Objective::language, .target_length = 17});
  const auto strategies = builtin_strategies();
  std::set<std::string> planned;
  for (const int workers : {1, 2, 8})
    for (const auto& family : families_of({graph, workers, 64, 4, 8, true})) {
      std::vector<std::size_t> at;
      for (const auto& axis : family.axes) {
        ASSERT_FALSE(axis.values.empty()) << to_string(family.base) << " " << axis.name;
        EXPECT_TRUE(axis.near.empty() || axis.near.size() == axis.values.size()) << axis.name;
        at.push_back(axis.starts.front());
      }
      const auto spec = family.spec(at);
      EXPECT_EQ(strategies.at(spec.name).make({graph, workers, 64, 4, spec}).workers(), workers) << to_string(spec);
      planned.insert(spec.name);
    }
  EXPECT_EQ(planned.size(), strategies.names().size());
}

// What trains something else than the global batch's gradient is only looked at where that was asked for.
TEST(StrategyChoices, StaleOnesWantToBeAskedFor) {
  const auto graph = lenet();
  const auto words = [&](bool changes_results) {
    std::set<std::string> all;
    for (const auto& family : families_of({graph, 4, 64, 4, 8, changes_results})) {
      all.insert(family.base.name);
      for (const auto& axis : family.axes)
        for (const auto& value : axis.values)
          for (const auto& [option, text] : value.options) all.insert(option == "schedule" ? text : option);
    }
    return all;
  };
  for (const auto* word : {"local", "pipedream", "pipedream-2bw", "async", "stale"}) {
    EXPECT_FALSE(words(false).contains(word)) << word;
    EXPECT_TRUE(words(true).contains(word)) << word;
  }
  for (const auto* word : {"1f1b", "compress", "in-process"}) EXPECT_FALSE(words(true).contains(word)) << word << ": the usual one, or not asked for";
  EXPECT_TRUE(words(false).contains("gpipe"));
}

// Every one of them can be planned, and wires are for several workers alone.
TEST(StrategyChoices, WiresCompressionsAndThreadsWhereThereAreSome) {
  const auto graph = lenet();
  ChoiceInput input{graph, 4, 64};
  const double before = [&] {
    double all = 0;
    for (const auto& family : families_of(input)) all += family.size();
    return all;
  }();
  input.transports = {"tcp"};
  double with_tcp = 0;
  for (const auto& family : families_of(input)) with_tcp += family.size();
  EXPECT_EQ(with_tcp, 2 * before);
  input.compressions = {"int8", "top-k"};
  input.threads = true;
  std::set<std::string> compressions, threads, transports;
  for (const auto& family : families_of(input)) {
    for (std::size_t axis = 0; axis < family.axes.size(); ++axis)
      for (std::size_t value = 0; value < family.axes[axis].values.size(); ++value) {
        std::vector<std::size_t> at;
        for (const auto& each : family.axes) at.push_back(each.starts.front());
        at[axis] = value;
        const auto spec = family.spec(at);
        const auto keys = family.keys(at);
        if (spec.options.contains("compress")) compressions.insert(spec.name + " " + spec.options.at("compress"));
        if (keys.contains("transport")) transports.insert(keys.at("transport"));
        if (!spec.options.contains("in-process")) continue;
        threads.insert(spec.options.at("in-process"));
        EXPECT_EQ(keys.at("transport"), "inproc");
        EXPECT_TRUE(builtin_strategies().at(spec.name).make({graph, 4, 64, 4, spec}).in_process) << to_string(spec);
      }
  }
  EXPECT_EQ(compressions, (std::set<std::string>{"data int8", "data top-k"}));
  EXPECT_EQ(threads, (std::set<std::string>{"mirrored", "parallel"}));
  EXPECT_EQ(transports, (std::set<std::string>{"inproc", "tcp"}));
  input.workers = 1;
  for (const auto& family : families_of(input))
    for (const auto& axis : family.axes) EXPECT_NE(axis.name, "transport");
}

// docs/advise.md: the algorithm wherever gradients, means or activations are all-reduced; replicas that are also in parts have what `sharded` has at each level. Each value can be planned by itself.
TEST(StrategyChoices, AxesOfAlgorithmsAndOfMeshesOfReplicas) {
  const auto graph = lenet();
  ChoiceInput input{graph, 4, 64, 4, 8, true};
  input.collectives = {"ring", "tree"};
  std::set<std::string> algorithms;
  std::map<std::string, std::set<std::string>> of_levels;
  for (const auto& family : families_of(input)) {
    std::vector<std::size_t> start;
    for (const auto& axis : family.axes) start.push_back(axis.starts.front());
    const bool replicas = family.base.name == "hybrid" && family.base.options.contains("level");
    for (std::size_t axis = 0; axis < family.axes.size(); ++axis) {
      if (family.axes[axis].name == "collective") algorithms.insert(family.base.name);
      if (replicas) of_levels[family.base.options.at("level")].insert(family.axes[axis].name);
      if (!replicas && family.base.name != "local") continue;
      for (std::size_t value = 0; value < family.axes[axis].values.size(); ++value) {
        auto at = start;
        at[axis] = value;
        const auto spec = family.spec(at);
        EXPECT_EQ(builtin_strategies().at(spec.name).make({graph, 4, 64, 4, spec}).workers(), 4) << to_string(spec);
      }
    }
  }
  EXPECT_EQ(algorithms, (std::set<std::string>{"data", "hybrid", "local", "tensor"}));
  ASSERT_EQ(of_levels.size(), 3U);
  for (const auto* level : {"1", "2"})
    for (const auto* axis : {"bucket", "overlap", "accumulate", "recompute", "collective"}) EXPECT_TRUE(of_levels[level].contains(axis)) << level << " " << axis;
  for (const auto* axis : {"prefetch", "reshard", "accumulate", "recompute", "collective"}) EXPECT_TRUE(of_levels["3"].contains(axis)) << axis;
}

TEST(StrategyChoices, MeshesAreEveryProductAndJoinedByPrimes) {
  const auto graph = lenet();
  const ChoiceInput input{graph, 12, 64};
  const MeshWish all{.pipeline = true, .tensor = true, .sharded = true};
  const auto axis = mesh_axis(input, all, {.data = false}, 100);
  // 12 = 2 x 2 x 3: C(5, 3) x C(4, 3) = 40 ways over four axes, less the four of one axis alone.
  EXPECT_EQ(axis.values.size(), 36u);
  std::set<std::size_t> reached{axis.starts.front()};
  std::vector<std::size_t> open{axis.starts.front()};
  while (!open.empty()) {
    const auto from = open.back();
    open.pop_back();
    for (const auto to : axis.near[from])
      if (reached.insert(to).second) open.push_back(to);
  }
  EXPECT_EQ(reached.size(), axis.values.size());
  for (const auto& value : axis.values) {
    int product = 1;
    for (const auto& [name, size] : value.options) product *= std::stoi(size);
    EXPECT_EQ(product, 12);
  }
  EXPECT_TRUE(mesh_axis({graph, 7, 64}, all, {.data = false}, 100).values.empty()) << "a prime has one axis";
  for (const auto& value : mesh_axis(input, all, {.data = false}, 2).values)
    if (value.options.contains("pipeline")) {
      EXPECT_EQ(value.options.at("pipeline"), "2") << "as many stages as layers, at most";
    }
}

}  // namespace
}  // namespace ddl
