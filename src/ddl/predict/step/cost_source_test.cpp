#include "ddl/predict/step/cost_source.h"

#include <gtest/gtest.h>

#include "ddl/nn/builtin.h"
#include "ddl/strategy/builtin.h"

namespace ddl {
namespace {

/// Nothing takes time but updates and copies, a second a byte.
class ByBytes final : public CostSource {
 public:
  explicit ByBytes(bool in_place) : in_place_(in_place) {}
  LayerCost layer(int, const ModelGraph&, std::size_t, std::int64_t) const override { return {}; }
  TaskCost collective(Goal, std::int64_t, const std::vector<int>&, StepCosts&) const override { return {}; }  // copies alone are left
  TaskCost message(std::int64_t, int, int, StepCosts&) const override { return {}; }
  TaskCost compressing(int, const std::string&, std::int64_t, int, StepCosts&) const override { return {}; }
  double update(int, std::int64_t bytes) const override { return static_cast<double>(bytes); }
  double copy(int, std::int64_t bytes) const override { return static_cast<double>(bytes); }
  bool writes_in_place(int) const override { return in_place_; }
  LayerCost loss(int, const ModelGraph&, std::int64_t) const override { return {}; }
  double load(int, std::int64_t) const override { return 1e12; }
  TaskCost loader(int, std::int64_t, StepCosts&) const override { return {}; }
  TaskCost harness(int, double computes, StepCosts&) const override { return {computes}; }

 private:
  bool in_place_;
};

/// Of learnt positions.
double places_of(const ModelGraph& graph) {
  double places = 0;
  for (const auto& layer : graph.layers)
    if (layer.kind == LayerKind::positions && !layer.parameters.empty()) places += static_cast<double>(layer.parameters[0].shape[0]);
  return places;
}

struct Bytes {
  double updated = 0, copied = 0, gathered = 0;
};

ModelGraph mlp() { return builtin_models().at("mlp").make(parse_spec("mlp[layers=4,hidden=256]"), {1, 28, 28, 10}); }

/// Its words are its output layer's, too.
ModelGraph gpt() {
  return builtin_models().at("gpt").make(parse_spec("gpt[hidden=32,layers=2,heads=2]"), {.classes = 200, .objective = Objective::language, .target_length = 17});
}

Bytes bytes_of(const std::string& strategy, bool in_place, int workers = 4, const ModelGraph& graph = mlp(), bool again = false) {
  const auto spec = parse_spec(strategy);
  auto plan = builtin_strategies().at(spec.name).make({graph, workers, 64, 4, spec});
  for (auto& task : plan.roles[0].tasks) task.recompute |= again && (task.kind == TaskKind::forward || task.kind == TaskKind::backward);
  std::vector<Actor> actors;
  for (std::size_t role = 0; role < plan.roles.size(); ++role) actors.push_back({static_cast<int>(role), plan.roles[role].first, plan.roles[role].count});
  const auto costs = step_costs(plan, graph, 64, actors, ByBytes(in_place));
  Bytes sum;
  const auto& tasks = plan.roles[0].tasks;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (tasks[i].kind == TaskKind::update) sum.updated += costs.tasks[0][i].seconds;
    if (tasks[i].kind == TaskKind::backward) sum.copied += costs.tasks[0][i].seconds;
    if (tasks[i].kind == TaskKind::collective && tasks[i].cargo == Cargo::parameters) sum.gathered += costs.tasks[0][i].seconds;
  }
  return sum;
}

/// Bytes of the parameters with so many dimensions at most.
double parameters(std::size_t most_dimensions = 9, const ModelGraph& graph = mlp()) {
  std::int64_t sum = 0;
  for (const auto& spec : graph.parameter_specs()) sum += spec.shape.size() <= most_dimensions ? 4 * spec.elements() : 0;
  return static_cast<double>(sum);
}

TEST(StepCosts, WhoKeepsPartsUpdatesThose) {
  EXPECT_NEAR(bytes_of("data", false).updated, parameters(), 8);
  for (const auto* strategy : {"sharded[level=1]", "sharded[level=2]", "sharded[level=3]"}) EXPECT_NEAR(bytes_of(strategy, false).updated, parameters() / 4, 64) << strategy;
  EXPECT_NEAR(bytes_of("hybrid[data=2,sharded=2]", false).updated, parameters() / 2, 64);
}

/// What bookkeeping is told that a worker computes: of what comes within some steps alone its share, and nothing of what it does for batches.
TEST(StepCosts, BookkeepingIsToldHowLongAWorkerComputes) {
  const auto told = [](const std::string& strategy) {
    const auto graph = mlp();
    const auto spec = parse_spec(strategy);
    const auto plan = builtin_strategies().at(spec.name).make({graph, 2, 64, 4, spec});
    return step_costs(plan, graph, 64, {{0, 0, 2}}, ByBytes(true)).harness.at(0).seconds;
  };
  const double whole = parameters();
  EXPECT_NEAR(told("data"), bytes_of("data", true, 2).updated + bytes_of("data", true, 2).copied, 1);
  EXPECT_GT(told("data"), 0.99 * whole);
  EXPECT_LT(told("data"), 1.1 * whole);
  // Averages in every eighth step copy all parameters once more.
  EXPECT_GT(told("local[every=8]"), 0.99 * whole);
  EXPECT_LT(told("local[every=8]"), 1.6 * whole);
}

TEST(StepCosts, GradientsThatAreMadeInTheirPlaceAreNotCopied) {
  EXPECT_NEAR(bytes_of("data", false).copied, parameters(), 1);
  EXPECT_NEAR(bytes_of("data", true).copied, parameters(1), 1) << "biases";
  const auto words = gpt();
  EXPECT_NEAR(bytes_of("data", false, 4, words).copied, parameters(9, words), 1);
  EXPECT_NEAR(bytes_of("data", true, 4, words).copied, parameters(1, words) + 4 * 32 * places_of(words), 1) << "biases, norms and places";
  EXPECT_NEAR(bytes_of("sharded[level=1]", true).copied, parameters(1), 1);
  EXPECT_NEAR(bytes_of("sharded[level=2]", true).copied, parameters(1) + parameters() / 4, 64) << "the worker's own part is taken out of a place that is filled by turns";
  EXPECT_NEAR(bytes_of("sharded[level=2]", false).copied, parameters() * 5 / 4, 64);
}

// All segments but the last hand theirs on.
TEST(StepCosts, GradientsOfSegmentsThatAreRunAgainAreCopied) {
  for (const auto* strategy : {"data", "sharded[level=1]"}) {
    const auto again = bytes_of(strategy, true, 4, mlp(), true).copied, once = bytes_of(strategy, true).copied;
    // What forward takes again counts with backward: nothing here.
    EXPECT_GT(again, once + 0.2 * parameters()) << strategy;
    EXPECT_LT(again, 0.95 * parameters()) << strategy;
    EXPECT_NEAR(bytes_of(strategy, false, 4, mlp(), true).copied, parameters(), 1) << strategy;
  }
}

/// A second a sample and layer.
class BySamples final : public CostSource {
 public:
  LayerCost layer(int, const ModelGraph&, std::size_t, std::int64_t samples) const override { return {static_cast<double>(samples), 0, 0}; }
  TaskCost collective(Goal, std::int64_t, const std::vector<int>&, StepCosts&) const override { return {}; }
  TaskCost message(std::int64_t bytes, int, int, StepCosts&) const override { return {static_cast<double>(bytes)}; }
  TaskCost compressing(int, const std::string&, std::int64_t, int, StepCosts&) const override { return {}; }
  double update(int, std::int64_t) const override { return 0; }
  double copy(int, std::int64_t) const override { return 0; }
  LayerCost loss(int, const ModelGraph&, std::int64_t samples) const override { return {1000.0 * static_cast<double>(samples), 0, 0}; }
  double load(int, std::int64_t) const override { return 0; }
  TaskCost loader(int, std::int64_t, StepCosts&) const override { return {}; }
  TaskCost harness(int, double, StepCosts&) const override { return {}; }
};

/// Of all roles: forwards, and messages of what layers make.
std::pair<double, double> passes_of(const std::string& strategy, int workers, std::int64_t batch, int accumulate = 1) {
  const auto graph = mlp();
  const auto spec = parse_spec(strategy);
  StrategyInput input{graph, workers, batch, 4, spec};
  input.micro_batches = accumulate;
  const auto plan = builtin_strategies().at(spec.name).make(input);
  const auto costs = step_costs(plan, graph, batch, workers_as_actors(plan), BySamples());
  double forward = 0, sent = 0;
  for (std::size_t a = 0; a < costs.actors.size(); ++a) {
    const auto& tasks = plan.roles[static_cast<std::size_t>(costs.actors[a].role)].tasks;
    for (std::size_t t = 0; t < tasks.size(); ++t) {
      if (tasks[t].kind == TaskKind::forward) forward += costs.tasks[a][t].seconds;
      if (tasks[t].kind == TaskKind::send && tasks[t].cargo == Cargo::activations) sent += costs.tasks[a][t].seconds;
    }
  }
  return {forward, sent};
}

// Micro-batches that do not divide have as many samples together as there are, not as many times the largest.
TEST(StepCosts, AStepHasAsManySamplesAsItsBatch) {
  const auto layers = static_cast<double>(mlp().layers.size()) + 1000;
  for (const auto& [batch, accumulate] : {std::pair{64, 4}, {9, 8}, {9, 4}, {4, 4}, {100, 32}}) EXPECT_NEAR(passes_of("single", 1, batch, accumulate).first, layers * batch, 1e-6) << batch << " in " << accumulate;
  // One a worker, though each has places for four.
  EXPECT_NEAR(passes_of("data", 4, 4, 4).first, layers * 4, 1e-6);
  const auto [even, even_sent] = passes_of("pipeline[schedule=gpipe,micro=4]", 2, 64);
  const auto [uneven, uneven_sent] = passes_of("pipeline[schedule=gpipe,micro=4]", 2, 50);
  EXPECT_NEAR(uneven / even, 50.0 / 64, 1e-9);
  EXPECT_NEAR(uneven_sent / even_sent, 50.0 / 64, 1e-6);
}

// Threads that compute all but the loss, and the one that computes that: once.
TEST(StepCosts, TheLossOfThreadsTogetherCountsOnce) { EXPECT_NEAR(passes_of("data[in-process=parallel]", 2, 64).first, (static_cast<double>(mlp().layers.size()) + 1000) * 64, 1e-6); }

// Forward and backward gather what was let go, and a worker's own part is copied to where the others' come.
TEST(StepCosts, WhoLetsParametersGoCopiesItsOwnPart) {
  EXPECT_EQ(bytes_of("sharded[level=2]", true).gathered, 0) << "they lie where they are gathered";
  EXPECT_GT(bytes_of("sharded[level=3]", true).gathered, 1.4 * parameters() / 4);
  EXPECT_LE(bytes_of("sharded[level=3]", true).gathered, 2 * parameters() / 4 + 64);
}

}  // namespace
}  // namespace ddl
