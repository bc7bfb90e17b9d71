#include "ddl/strategy/partition/partition.h"

#include <algorithm>
#include <ctime>
#include <limits>

#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/nn/builtin.h"
#include "ddl/strategy/partition/minimax.h"
#include "ddl/strategy/partition/partition_testing.h"

namespace ddl {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

LayerCosts costs_of(const std::string& text, const CostOptions& options = {}) {
  const auto spec = parse_spec(text);
  return layer_costs(builtin_models().at(spec.name).make(spec, natural_shape(spec.name)), options);
}

int computing(const LayerCosts& costs) {
  return static_cast<int>(std::count_if(costs.layers.begin(), costs.layers.end(), [](const PartitionLayer& layer) { return !layer.input; }));
}

std::string message(const std::function<void()>& what) {
  try {
    what();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument);
    return error.what();
  }
  return "no error";
}

struct Value {
  double largest = 0, bytes = 0;
};

/// `of` stage s of P, the largest of all; and what all cuts carry.
template <typename Of>
Value value(const LayerCosts& costs, const std::vector<int>& cuts, Of of) {
  Value found;
  for (std::size_t stage = 0; stage < cuts.size(); ++stage) {
    const NaiveStage here(costs, cuts[stage], stage + 1 < cuts.size() ? cuts[stage + 1] : static_cast<int>(costs.layers.size()));
    found.largest = std::max(found.largest, of(here, static_cast<int>(stage), static_cast<int>(cuts.size())));
    found.bytes += here.crossing;
  }
  return found;
}

template <typename Of>
void expect_optimal(const LayerCosts& costs, int stages, const Partition& made, Of of) {
  Value best{kNever, kNever};
  for (const auto& cuts : all_cuts(costs, stages)) {
    const auto here = value(costs, cuts, of);
    if (here.largest < best.largest || (here.largest == best.largest && here.bytes < best.bytes)) best = here;
  }
  const auto got = value(costs, made.cuts, of);
  EXPECT_EQ(static_cast<int>(made.cuts.size()), stages);
  EXPECT_EQ(got.largest, best.largest);
  EXPECT_EQ(got.bytes, best.bytes);
  EXPECT_EQ(made.largest, best.largest);
}

TEST(PartitionOptimum, EqualsTheBestOfAllCuts) {
  Random random(1);
  for (int repetition = 0; repetition < 300; ++repetition) {
    const int layers = 1 + static_cast<int>(random.below(9));
    const auto costs = random_costs(layers, random);
    const int stages = 1 + static_cast<int>(random.below(static_cast<std::uint64_t>(layers)));
    const PartitionInput input{costs, stages};
    expect_optimal(costs, stages, partition_by_time(input), [](const NaiveStage& here, int, int) { return here.seconds; });
    expect_optimal(costs, stages, partition_by_flops(input), [](const NaiveStage& here, int, int) { return here.flops; });
    for (const InFlight& in_flight : {InFlight(in_flight_of_1f1b), InFlight([](int, int) { return 4.0; })})
      expect_optimal(costs, stages, partition_by_memory({costs, stages, in_flight}),
                     [&](const NaiveStage& here, int stage, int all) { return here.bytes(costs, in_flight(stage, all)); });
    if (HasFailure()) break;
  }
}

// By time and FLOPs stages cost alike, and another way than the recurrence finds the split: the same one, with whatever ties.
TEST(PartitionOptimum, OfStagesThatAreAlikeIsThatOfTheRecurrence) {
  Random random(7);
  for (int repetition = 0; repetition < 400 && !HasFailure(); ++repetition) {
    const int places = 1 + static_cast<int>(random.below(70)), stages = 1 + static_cast<int>(random.below(static_cast<std::uint64_t>(places)));
    const auto most = 1 + random.below(30);  // with few different costs nearly all is ties
    std::vector<double> sums{0}, bytes;
    for (int place = 0; place < places; ++place) {
      const auto drawn = static_cast<double>(random.below(most));
      sums.push_back(sums.back() + (repetition % 3 == 0 ? drawn * 0.1 : repetition % 3 == 1 && place == places / 2 ? 1000 : drawn));
      bytes.push_back(static_cast<double>(random.below(9)));
    }
    const auto cost = [&](int first, int last) { return sums[static_cast<std::size_t>(last)] - sums[static_cast<std::size_t>(first)]; };
    const auto carried = [&](int place) { return bytes[static_cast<std::size_t>(place)]; };
    const auto slow = minimise_largest(places, stages, [&](int, int first, int last) { return StageCost{cost(first, last), cost(first, last)}; }, carried);
    const auto made = minimise_largest_alike(places, stages, cost, carried);
    EXPECT_EQ(made.largest, slow.largest) << places << " places, " << stages << " stages";
    EXPECT_EQ(made.starts, slow.starts) << places << " places, " << stages << " stages";
  }
}

// Thousands of layers in thousands of stages: even ones, and with one that takes as long as many, so that the others may end nearly anywhere.
TEST(PartitionConformance, CutsThousandsOfLayersByTimeWithinASecond) {
  for (const double longest : {0.0, 400.0}) {
    Random random(8);
    LayerCosts costs{"deep", 1, 3, {}, {}, {}};
    // What the others may end at is the work then.
    const int layers = longest > 0 ? 8'192 : 16'384;
    for (int layer = 0; layer < layers; ++layer) {
      const double seconds = layer == 5'000 && longest > 0 ? longest : 1 + random.uniform(0, 3);
      costs.layers.push_back({seconds, 2 * seconds, seconds, 1, 0, 1, false});
      costs.cuts.push_back({{}, static_cast<std::int64_t>(random.below(9)), 0});
    }
    for (const int stages : {64, 1024, 4096}) {
      const auto begin = std::clock();
      const auto made = partition_by_time({costs, stages});
      EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 1.0) << stages << " stages, longest " << longest;
      EXPECT_EQ(static_cast<int>(made.cuts.size()), stages);
      EXPECT_GE(made.largest, 3 * longest);
      double slowest = 0;
      for (int stage = 0; stage < stages; ++stage) {
        double seconds = 0;
        const int last = stage + 1 < stages ? made.cuts[static_cast<std::size_t>(stage) + 1] : layers;
        for (int layer = made.cuts[static_cast<std::size_t>(stage)]; layer < last; ++layer) seconds += costs.layers[static_cast<std::size_t>(layer)].forward + costs.layers[static_cast<std::size_t>(layer)].backward;
        slowest = std::max(slowest, seconds);
      }
      EXPECT_NEAR(slowest, made.largest, 1e-6 * slowest);
    }
  }
}

// Every method, on every network: stages that begin one after another, at layers that are not inputs, whatever takes no time.
TEST(PartitionConformance, CutsEveryNetwork) {
  for (const auto& network : builtin_models().entries()) {
    const auto costs = costs_of(network.name, {.flops_per_second = 1e12});
    for (const auto& method : builtin_partitioners().entries())
      for (const int stages : {1, 2, 3, 4, 8}) {
        if (stages > computing(costs)) continue;
        PartitionInput input{costs, stages};
        input.machines = {{8, 1e9}};
        const auto made = method.make(input);
        SCOPED_TRACE(fmt::format("{} {} {}", network.name, method.name, stages));
        ASSERT_EQ(static_cast<int>(made.cuts.size()), stages);
        ASSERT_EQ(made.replicas.size(), made.cuts.size());
        EXPECT_EQ(made.cuts.front(), 0);
        for (std::size_t stage = 1; stage < made.cuts.size(); ++stage) {
          EXPECT_LT(made.cuts[stage - 1], made.cuts[stage]);
          EXPECT_FALSE(costs.layers.at(static_cast<std::size_t>(made.cuts[stage])).input);
        }
        int workers = 0;
        for (const int replicas : made.replicas) workers += replicas;
        EXPECT_EQ(workers, method.name == "pipedream" ? 8 : stages);
      }
  }
}

// About 0.01 to 0.1 s each; the bound is for sanitizers, and of the processor's time, since other tests run beside. What grows with the
// number of layers without end takes minutes.
TEST(PartitionConformance, IsQuickOnDeepNetworks) {
  for (const auto& [network, stages] : {std::pair{"resnet152", 16}, std::pair{"gpt[layers=96]", 32}}) {
    const auto costs = costs_of(network, {.flops_per_second = 1e12});
    for (const auto& method : builtin_partitioners().entries()) {
      PartitionInput input{costs, stages};
      input.machines = {{8, 1e11}, {stages / 8, 1e10}};
      const auto start = std::clock();
      method.make(input);
      const auto seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
      EXPECT_LT(seconds, 20) << network << " " << method.name;
    }
  }
}

// What crosses is free here, and each stage has one worker: what pipedream's blocks of layers must not lose.
TEST(PartitionConformance, PipedreamFindsWhatTimeAndMemoryFind) {
  for (const auto& [network, stages] : {std::pair{"resnet152", 16}, std::pair{"gpt[layers=96]", 32}, std::pair{"inceptionv3", 8}}) {
    const auto costs = costs_of(network, {.flops_per_second = 1e12});
    PartitionInput input{costs, stages};
    input.machines = {{stages, 1e30}};
    EXPECT_DOUBLE_EQ(partition_pipedream(input).largest, partition_by_time(input).largest) << network;
    const auto least = partition_by_memory(input).largest;
    input.memory_limit = least;
    EXPECT_EQ(static_cast<int>(partition_pipedream(input).cuts.size()), stages) << network;
    input.memory_limit = 0.999 * least;
    EXPECT_THROW(partition_pipedream(input), Error) << network;
  }
}

TEST(PartitionByCount, DiffersByOneAtMostAndCountsNoInputs) {
  Random random(3);
  const auto costs = random_costs(8, random);  // inputs are layers 0 and 3
  EXPECT_EQ(partition_by_count({costs, 3}).cuts, (std::vector<int>{0, 5, 8}));
  EXPECT_EQ(partition_by_count({costs, 8}).cuts, (std::vector<int>{0, 2, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(partition_by_count({costs, 3}).largest, 3);
}

TEST(PartitionByMemory, EarlierStagesOf1F1BGetFewerLayers) {
  LayerCosts costs{"even", 1, 3, {}, {}, {}};
  for (int layer = 0; layer < 12; ++layer) {
    costs.layers.push_back({1, 1, 1, 0, 0, 12, false});
    costs.cuts.push_back({{}, 1, 1});
  }
  // 3, 2 and 1 micro-batches in flight: 2, 3 and 7 layers hold 72, 74 and 85; no other split holds less at most.
  EXPECT_EQ(partition_by_memory({costs, 3}).cuts, (std::vector<int>{0, 2, 5}));
  EXPECT_EQ(partition_by_memory({costs, 3, [](int, int) { return 1.0; }}).cuts, (std::vector<int>{0, 4, 8}));
}

TEST(Partition, RefusesNumbersOfStagesThatDoNotFit) {
  const auto costs = costs_of("null");
  for (const auto& method : builtin_partitioners().entries())
    for (const int stages : {-1, 5}) {
      PartitionInput input{costs, stages};
      input.machines = {{8, 1e9}};
      const auto said = message([&] { method.make(input); });
      EXPECT_NE(said.find(fmt::format("got {} stages, expected 1 to 4", stages)), std::string::npos) << method.name << said;
    }
  EXPECT_THROW(partition_by_time({costs, 0}), Error);
}

TEST(ParsePartition, CountsLayersWithoutInputs) {
  Random random(3);
  const auto costs = random_costs(8, random);
  const auto made = parse_partition("3/3/2", costs);
  EXPECT_EQ(made.cuts, (std::vector<int>{0, 5, 8}));
  EXPECT_EQ(made.replicas, (std::vector<int>{1, 1, 1}));
  EXPECT_EQ(parse_partition("8", costs).cuts, (std::vector<int>{0}));
}

TEST(ParsePartition, SaysWhatDoesNotAddUp) {
  const auto costs = costs_of("lenet");
  const auto said = message([&] { parse_partition("3/5/2", costs); });
  EXPECT_NE(said.find(fmt::format("got a sum of 10, expected {}", computing(costs))), std::string::npos) << said;
  for (const auto* bad : {"", "3/", "3//2", "0/12", "-1/13", "3/x", "3 /9", "99999999999"})
    EXPECT_NE(message([&] { parse_partition(bad, costs); }).find("expected 1 or more"), std::string::npos) << bad;
}

}  // namespace
}  // namespace ddl
