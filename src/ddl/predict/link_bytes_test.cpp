#include "ddl/predict/link_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "ddl/core/error.h"
#include "ddl/nn/builtin.h"
#include "ddl/strategy/builtin.h"

namespace ddl {
namespace {

Plan plan_of(const std::string& strategy, int workers, bool mixed = false) {
  const auto model = parse_spec("mlp[layers=8]");
  const auto graph = builtin_models().at(model.name).make(model, {1, 28, 28, 10});
  StrategyInput input{graph, workers, 64, 4, parse_spec(strategy)};
  input.mixed = mixed;
  return builtin_strategies().at(input.spec.name).make(input);
}

CollectiveWays by(const std::string& algorithm) {
  CollectiveWays ways;
  ways.algorithm = [algorithm](const Task& task, int) { return task.goal == Goal::all_reduce ? algorithm : "direct"; };
  return ways;
}

double sum_of(const std::vector<PairBytes>& pairs) {
  double sum = 0;
  for (const auto& pair : pairs) sum += pair.bytes;
  return sum;
}

double bytes_of(const Plan& plan, TaskKind kind) {
  double sum = 0;
  for (const auto& role : plan.roles)
    for (const auto& task : role.tasks)
      if (task.kind == kind) sum += static_cast<double>(task.bytes);
  return sum;
}

// 2 (P-1)/P n from each rank to its neighbour, and nowhere else (Patarasuk & Yuan 2009).
TEST(LinkBytes, ARingLoadsEachLinkAlike) {
  const auto plan = plan_of("data", 4);
  const auto pairs = bytes_between(plan, by("ring"));
  ASSERT_EQ(pairs.size(), 4U);
  const double whole = bytes_of(plan, TaskKind::collective);
  for (const auto& pair : pairs) {
    EXPECT_EQ(pair.to, (pair.from + 1) % 4);
    EXPECT_NEAR(pair.bytes, 1.5 * whole, 64) << "parts differ by an element";
  }
  EXPECT_DOUBLE_EQ(sum_of(pairs), 6 * whole);
  // A library, too, but for the rounding.
  EXPECT_DOUBLE_EQ(sum_of(bytes_between(plan, {})), 6 * whole);
  EXPECT_DOUBLE_EQ(sum_of(bytes_between(plan, by("native"))), 6 * whole);
}

TEST(LinkBytes, EveryAllReduceThatIsOptimalMovesAsMuch) {
  const auto plan = plan_of("data", 4);
  const double whole = bytes_of(plan, TaskKind::collective);
  for (const auto* algorithm : {"ring", "direct", "halving-doubling"}) EXPECT_DOUBLE_EQ(sum_of(bytes_between(plan, by(algorithm))), 6 * whole) << algorithm;
  EXPECT_DOUBLE_EQ(sum_of(bytes_between(plan, by("recursive-doubling"))), 8 * whole);
  EXPECT_EQ(bytes_between(plan, by("direct")).size(), 12U) << "everyone with everyone";
}

// Sums and gathers of parts are the two halves of an all-reduce.
TEST(LinkBytes, LibrariesRings) {
  const auto plan = plan_of("sharded[level=2]", 4);
  double halves = 0, whole = 0;
  for (const auto& task : plan.roles[0].tasks)
    if (task.kind == TaskKind::collective) (task.goal == Goal::all_reduce ? whole : halves) += static_cast<double>(task.bytes);
  EXPECT_GT(halves, 0);
  EXPECT_DOUBLE_EQ(sum_of(bytes_between(plan, {})), 3 * halves + 6 * whole);
}

TEST(LinkBytes, StagesSendToTheNextAndBack) {
  const auto plan = plan_of("pipeline[schedule=gpipe,micro=4]", 3);
  std::map<std::pair<int, int>, double> told;
  for (int stage = 0; stage < 3; ++stage)
    for (const auto& task : plan.roles[static_cast<std::size_t>(stage)].tasks)
      if (task.kind == TaskKind::send) told[{stage, task.peer}] += static_cast<double>(task.bytes);
  ASSERT_EQ(told.size(), 4U);
  std::map<std::pair<int, int>, double> counted;
  for (const auto& pair : bytes_between(plan, by("ring"))) counted[{pair.from, pair.to}] = pair.bytes;
  for (const auto& [between, bytes] : told) {
    EXPECT_GE(counted[between], bytes);
    EXPECT_LE(counted[between], bytes + 100) << "no more than that and what tells whether to stop";
  }
}

// Plans count the largest micro-batch for each: of what layers make as much as there is.
TEST(LinkBytes, MicroBatchesThatDoNotDivide) {
  const auto plan = plan_of("pipeline[schedule=gpipe,micro=4]", 2);
  auto half = by("ring");
  half.filled = 0.5;
  EXPECT_NEAR(sum_of(bytes_between(plan, half)) / sum_of(bytes_between(plan, by("ring"))), 0.5, 0.01);
  const auto replicas = plan_of("data", 2);
  EXPECT_EQ(sum_of(bytes_between(replicas, half)), sum_of(bytes_between(replicas, by("ring")))) << "gradients are whole";
}

double bytes_of(const Plan& plan, std::initializer_list<Cargo> cargo) {
  double sum = 0;
  for (const auto& role : plan.roles)
    for (const auto& task : role.tasks)
      if (std::find(cargo.begin(), cargo.end(), task.cargo) != cargo.end()) sum += static_cast<double>(task.bytes);
  return sum;
}

// Of 16 bits what layers make is half as wide, and so is its gradient; gradients of parameters are not.
TEST(LinkBytes, ValuesOf16BitsAreSentAsTheyAre) {
  for (const auto* strategy : {"model", "pipeline[schedule=gpipe,micro=4]", "pipeline[schedule=zb-h1,micro=4]", "tensor", "hybrid[data=2,tensor=2]", "hybrid[data=2,pipeline=2]", "data[in-process=parallel]"}) {
    const auto wide = plan_of(strategy, 4), narrow = plan_of(strategy, 4, true);
    const auto values = {Cargo::activations, Cargo::activation_gradients};
    ASSERT_GT(bytes_of(wide, values), 0) << strategy;
    EXPECT_DOUBLE_EQ(bytes_of(narrow, values), bytes_of(wide, values) / 2) << strategy;
    EXPECT_DOUBLE_EQ(bytes_of(narrow, {Cargo::gradients, Cargo::parameters, Cargo::inputs}), bytes_of(wide, {Cargo::gradients, Cargo::parameters, Cargo::inputs})) << strategy;
  }
}

// Parts of layers all-reduce what they make and its gradients; replicas of the parts the gradients of those: over other pairs.
TEST(LinkBytes, ReplicasOfParts) {
  const auto plan = plan_of("hybrid[data=2,tensor=2]", 4);
  double layers = 0, gradients = 0;
  for (const auto& task : plan.roles[0].tasks)
    if (task.kind == TaskKind::collective && task.goal == Goal::all_reduce) (task.layer != kNone ? layers : gradients) += static_cast<double>(task.bytes);
  ASSERT_GT(layers, 0);
  ASSERT_GT(gradients, 0);
  std::map<std::pair<int, int>, double> counted;
  for (const auto& pair : bytes_between(plan, by("ring"))) counted[{pair.from, pair.to}] = pair.bytes;
  // Among all four goes what tells whether to stop alone.
  for (const auto& [between, bytes] : counted) EXPECT_TRUE((between.first ^ between.second) == 1 || (between.first ^ between.second) == 2 || bytes < 100) << between.first << " to " << between.second;
  // A ring of two: each sends the other a half twice.
  EXPECT_GE((counted[{0, 1}]), layers);
  EXPECT_NEAR((counted[{0, 2}]), gradients, 100);
}

// Half of what is asked for every other step; a bucket of a server that lives with a worker goes to the others alone.
TEST(LinkBytes, SharesOfStepsAndServers) {
  EXPECT_NEAR(sum_of(bytes_between(plan_of("local[every=8]", 2), by("direct"))) / sum_of(bytes_between(plan_of("local[every=4]", 2), by("direct"))), 0.5, 0.01);
  const auto servers = bytes_between(plan_of("parameter-server[servers=1]", 4), by("direct"));
  double to = 0, from = 0;
  for (const auto& pair : servers) {
    if (pair.to == 0) to += pair.bytes;
    if (pair.from == 0) from += pair.bytes;
    EXPECT_NE(pair.from, pair.to);
  }
  EXPECT_DOUBLE_EQ(to, from) << "gradients come, as many parameters go";
  EXPECT_GT(to, 3e5) << "of three workers";
}

TEST(LinkBytes, PlacesShareTheirWires) {
  const auto plan = plan_of("data", 4);
  const auto pairs = bytes_between(plan, by("ring"));
  LinkRates rates;
  rates.places = {0, 0, 1, 1};
  rates.inside = 1e9;
  rates.wires = 1e8;
  const auto links = links_of(pairs, rates);
  ASSERT_EQ(links.size(), 4U);
  EXPECT_EQ(links[0].link, "inside node 0");
  EXPECT_EQ(links[3].link, "wires of node 1");
  const double each = pairs[0].bytes;
  EXPECT_NEAR(links[0].sent, each, 64) << "of four links of a ring one is inside each node";
  EXPECT_NEAR(links[2].sent, each, 64);
  EXPECT_NEAR(links[2].received, each, 64);
  EXPECT_NEAR(links[2].full(1), each / 1e8, 1e-6);
  EXPECT_EQ(LinkUse{}.full(1), 0) << "of a link whose rate nobody knows";
}

TEST(LinkBytes, OneWorkerSendsNothing) { EXPECT_TRUE(bytes_between(plan_of("single", 1), by("ring")).empty()); }

}  // namespace
}  // namespace ddl
