#include <algorithm>
#include <limits>
#include <utility>

#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/strategy/partition/partition_testing.h"
#include "ddl/strategy/partition/pipedream_solver.h"

namespace ddl {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Layers [first, last) on `replicas` of what the level has; below it the pipeline that each replica is.
struct Stage {
  int first = 0, last = 0, replicas = 1;
  std::vector<Stage> inside = {};
};
using Pipeline = std::vector<Stage>;

/// Every pipeline of layers [first, last) on all workers of the lowest `levels` levels.
std::vector<Pipeline> all_pipelines(const LayerCosts& costs, const std::vector<MachineLevel>& machines, std::size_t levels, int first, int last) {
  if (levels == 0) return {{}};
  std::vector<int> places;
  for (int layer = first + 1; layer < last; ++layer)
    if (!costs.layers[static_cast<std::size_t>(layer)].input && !(first == 0 && layer == 1)) places.push_back(layer);
  std::vector<Pipeline> all;
  for (unsigned chosen = 0; chosen < 1U << places.size(); ++chosen) {
    std::vector<int> bounds{first};
    for (std::size_t place = 0; place < places.size(); ++place)
      if ((chosen >> place & 1U) != 0) bounds.push_back(places[place]);
    bounds.push_back(last);
    const int stages = static_cast<int>(bounds.size()) - 1, workers = machines[levels - 1].count;
    if (stages > workers) continue;
    std::vector<Pipeline> some{{}};
    for (std::size_t stage = 0; stage + 1 < bounds.size(); ++stage) {
      std::vector<Pipeline> longer;
      for (const auto& inside : all_pipelines(costs, machines, levels - 1, bounds[stage], bounds[stage + 1]))
        for (auto pipeline : some) {
          pipeline.push_back({bounds[stage], bounds[stage + 1], 1, inside});
          longer.push_back(std::move(pipeline));
        }
      some = std::move(longer);
    }
    for (const auto& replicas : compositions(workers, stages))
      for (auto pipeline : some) {
        for (std::size_t stage = 0; stage < pipeline.size(); ++stage) pipeline[stage].replicas = replicas[stage];
        all.push_back(std::move(pipeline));
      }
  }
  return all;
}

int count(const Pipeline& pipeline) {
  int stages = 0;
  for (const auto& stage : pipeline) stages += stage.inside.empty() ? 1 : count(stage.inside);
  return stages;
}

/// Seconds of the slowest stage or transfer, `from` stages before it of `of` in all; never if a stage does not fit.
double seconds(const PartitionInput& input, const Pipeline& pipeline, std::size_t levels, int from, int of) {
  double slowest = 0;
  const auto bandwidth = input.machines[levels - 1].bandwidth;
  for (const auto& stage : pipeline) {
    const NaiveStage here(input.costs, stage.first, stage.last);
    if (stage.first != pipeline.front().first) slowest = std::max(slowest, here.crossing / bandwidth);
    double compute = here.seconds;
    if (!stage.inside.empty()) compute = seconds(input, stage.inside, levels - 1, from, of);
    else if (here.bytes(input.costs, input.in_flight(from, of)) > input.memory_limit) compute = kNever;
    from += stage.inside.empty() ? 1 : count(stage.inside);
    const double exchange = 2.0 * (stage.replicas - 1) / stage.replicas * here.trained * input.exchanges / bandwidth;
    slowest = std::max(slowest, std::max(compute, exchange) / stage.replicas);
  }
  return slowest;
}

void flatten(const Pipeline& pipeline, int replicas, Partition& into) {
  for (const auto& stage : pipeline) {
    if (!stage.inside.empty()) {
      flatten(stage.inside, replicas * stage.replicas, into);
      continue;
    }
    into.cuts.push_back(stage.first);
    into.replicas.push_back(replicas * stage.replicas);
  }
}

/// Pipelines of the machines against the optimum; the partition found must be one of those that take as long.
void expect_optimal(const PartitionInput& input) {
  const auto levels = input.machines.size();
  double best = kNever;
  std::vector<std::pair<double, Partition>> all;
  for (const auto& pipeline : all_pipelines(input.costs, input.machines, levels, 0, static_cast<int>(input.costs.layers.size()))) {
    const int stages = count(pipeline);
    if (input.stages != 0 && stages != input.stages) continue;
    const double here = seconds(input, pipeline, levels, 0, stages);
    best = std::min(best, here);
    Partition flat;
    flatten(pipeline, 1, flat);
    all.emplace_back(here, std::move(flat));
  }
  if (best == kNever) {
    EXPECT_THROW(partition_pipedream(input), Error);
    return;
  }
  const auto made = partition_pipedream(input);
  EXPECT_NEAR(made.largest, best, 1e-9 * best);
  EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const auto& one) {
    return one.second.cuts == made.cuts && one.second.replicas == made.replicas && one.first <= best + 1e-9 * best;
  }));
  // Told a little more than the optimum the solver finds it again; told a little less, nothing.
  const Intervals layers(input.costs);
  const int stages = static_cast<int>(made.cuts.size());
  EXPECT_NEAR(PipedreamSolver(input, layers, stages).solve(1e-9 + 1.001 * best).largest, best, 1e-9 * best);
  EXPECT_TRUE(PipedreamSolver(input, layers, stages).solve(0.999 * best).cuts.empty());
}

void check(const std::vector<int>& counts, std::uint64_t seed, int repetitions, int most_layers) {
  Random random(seed);
  for (int repetition = 0; repetition < repetitions && !testing::Test::HasFailure(); ++repetition) {
    const int layers = 1 + static_cast<int>(random.below(static_cast<std::uint64_t>(most_layers)));
    const auto costs = random_costs(layers, random);
    PartitionInput input{costs};
    int workers = 1;
    for (const int count : counts) {
      input.machines.push_back({1 + static_cast<int>(random.below(static_cast<std::uint64_t>(count))), random.uniform(0.5F, 12)});
      workers *= input.machines.back().count;
    }
    if (random.below(3) == 0) input.exchanges = 0.25;
    for (const double limit : {kNever, 80.0 + static_cast<double>(random.below(150))})
      for (int stages = 0; stages <= std::min(layers, workers); ++stages) {
        input.stages = stages;
        input.memory_limit = limit;
        SCOPED_TRACE(fmt::format("repetition {}: {} layers, {} workers, {} stages, limit {}", repetition, layers, workers, stages, limit));
        expect_optimal(input);
      }
  }
}

TEST(Pipedream, EqualsTheBestOfAllCutsAndReplicas) { check({6}, 1, 400, 7); }
TEST(Pipedream, EqualsTheBestOfAllPipelinesOfTwoLevels) { check({3, 3}, 2, 200, 5); }
TEST(Pipedream, EqualsTheBestOfAllPipelinesOfThreeLevels) { check({2, 2, 2}, 3, 150, 5); }

LayerCosts even(int layers, std::int64_t parameter_bytes, std::int64_t crossing) {
  LayerCosts costs{"even", 1, 3, {}, {}, {}};
  for (int layer = 0; layer < layers; ++layer) {
    costs.layers.push_back({1, 2, 3, parameter_bytes, 0, 1, false});
    costs.cuts.push_back({{}, crossing, crossing});
  }
  return costs;
}

TEST(Pipedream, IsDataParallelWhereParametersAreFew) {
  const auto costs = even(7, 1, 1000);
  PartitionInput input{costs};
  input.machines = {{4, 1000}};
  const auto made = partition_pipedream(input);
  EXPECT_EQ(made.cuts, (std::vector<int>{0}));
  EXPECT_EQ(made.replicas, (std::vector<int>{4}));
  EXPECT_EQ(made.largest, 21.0 / 4);
}

TEST(Pipedream, IsAStraightPipelineWhereParametersAreMany) {
  const auto costs = even(8, 1'000'000, 1);
  PartitionInput input{costs};
  input.machines = {{4, 1000}};
  const auto made = partition_pipedream(input);
  EXPECT_EQ(made.cuts, (std::vector<int>{0, 2, 4, 6}));
  EXPECT_EQ(made.replicas, (std::vector<int>{1, 1, 1, 1}));
}

TEST(Pipedream, ReplicatesConvolutionsAndNotTheDenseLayersAfterThem) {
  // VGG in small, as the paper's 15-1: convolutions have the time, dense layers the parameters.
  LayerCosts costs{"vgg", 1, 3, {}, {}, {}};
  for (int layer = 0; layer < 8; ++layer) {
    const bool dense = layer == 7;
    costs.layers.push_back({dense ? 0.2 : 1.0, dense ? 0.4 : 2.0, 3, dense ? 1'000'000 : 10, 0, 1, false});
    costs.cuts.push_back({{}, 100, 100});
  }
  PartitionInput input{costs};
  input.machines = {{16, 1000}};
  const auto made = partition_pipedream(input);
  EXPECT_EQ(made.cuts, (std::vector<int>{0, 7}));
  EXPECT_EQ(made.replicas, (std::vector<int>{15, 1}));
}

TEST(Pipedream, SaysWhatMemoryWouldDo) {
  const auto costs = even(4, 100, 0);
  PartitionInput input{costs};
  input.machines = {{2, 1000}};
  input.memory_limit = 500;
  try {
    partition_pipedream(input);
    ADD_FAILURE();
  } catch (const Error& error) {
    // Two layers with three tensors each, and two micro-batches of their activations.
    EXPECT_NE(std::string(error.what()).find("604"), std::string::npos) << error.what();
  }
  input.memory_limit = 604;
  EXPECT_EQ(partition_pipedream(input).cuts.size(), 2U);
}

TEST(Pipedream, RefusesMachinesThatCannotBe) {
  const auto costs = even(4, 1, 1);
  PartitionInput input{costs};
  EXPECT_THROW(partition_pipedream(input), Error);
  for (const auto& machines : std::vector<std::vector<MachineLevel>>{{{0, 1}}, {{2, 0}}, {{64, 1}, {65, 1}}, {{2, -1}}}) {
    input.machines = machines;
    EXPECT_THROW(partition_pipedream(input), Error);
  }
  input.machines = {{2, 1}};
  input.stages = 3;
  EXPECT_THROW(partition_pipedream(input), Error);
}

}  // namespace
}  // namespace ddl
