#include "ddl/train/pass_graphs.h"

#include <cmath>

#include "ddl/train/cuda_first_testing.h"
#include "ddl/train/graphable.h"
#include "ddl/train/trial_testing.h"

namespace ddl::testing {
namespace {

std::vector<Outcome> outcomes_of(const Trial& trial, int ranks) { return ranks > 1 ? train(trial, ranks) : std::vector{train_rank(trial, 0, 1, nullptr)}; }

/// Holds a trial whose passes are graphs against the same without, on each device that has such: on the delayed one to the bit, since what the two compute is the same in the same order; a GPU adds some sums up in
/// any order. `by_graphs`: in so many of its steps.
void expect_as_without(Trial trial, int ranks, std::int64_t by_graphs) {
  for (const auto& device : test_devices()) {
    if (device == "cpu") continue;
    const bool exact = device == "delayed";
    // Of a process one thread may record at a time, and no other work on the GPU may begin meanwhile: several ranks there are processes (bench/gpu.py).
    if (!exact && ranks > 1) continue;
    SCOPED_TRACE(trial.model + ", " + trial.strategy + ", " + std::to_string(ranks) + " workers on " + device);
    trial.device = device;
    trial.graphs = false;
    const auto without = outcomes_of(trial, ranks);
    trial.graphs = true;
    const auto with = outcomes_of(trial, ranks);
    const double tolerance = exact ? 0 : trial.type == at::kDouble ? 1e-9 : 0.02;
    for (std::size_t rank = 0; rank < with.size(); ++rank) {
      const auto &own = with[rank], &other = without[rank];
      EXPECT_EQ(own.graphs.why_not, "");
      EXPECT_EQ(own.graphs.steps, by_graphs);
      EXPECT_EQ(other.graphs.steps, 0);
      EXPECT_EQ(own.launches, exact ? 2 * trial.accumulate * by_graphs : 0);
      EXPECT_EQ(own.faults, 0);
      EXPECT_EQ(own.pinned, 0);
      EXPECT_EQ(own.read_in_place > 0, other.read_in_place > 0);
      if (exact && trial.model == "lenet") {
        EXPECT_GE(own.read_in_place + own.uploads_beside, trial.steps);
        // The first step by graphs has been uploaded as those before it.
        EXPECT_EQ(own.uploads_beside > 0, by_graphs > 1);
      }
      EXPECT_EQ(other.uploads_beside, 0);
      ASSERT_EQ(own.losses.size(), other.losses.size());
      for (std::size_t step = 0; step < own.losses.size(); ++step) EXPECT_LE(std::abs(own.losses[step] - other.losses[step]), tolerance * std::abs(other.losses[step])) << step;
      EXPECT_LE(relative_error(own.parameters, other.parameters), tolerance);
      if (!own.buffers.empty()) {
        EXPECT_LE(relative_error(own.buffers, other.buffers), tolerance);
      }
      EXPECT_EQ(own.updates.updates, other.updates.updates);
      EXPECT_EQ(own.updates.skipped, other.updates.skipped);
      EXPECT_EQ(own.updates.clipped, other.updates.clipped);
      EXPECT_EQ(own.updates.loss_scale, other.updates.loss_scale);
      EXPECT_EQ(own.updates.skipped > 0, trial.bright >= 0);
      EXPECT_EQ(own.updates.clipped > 0, trial.clip > 0);
    }
  }
}

// Three steps are computed as they are, the fourth is recorded.
TEST(PassGraphs, AWorkerAlone) {
  expect_as_without({.batch = 11, .steps = 6}, 1, 3);
  expect_as_without({.batch = 11, .steps = 3}, 1, 0);
}

// Eleven samples are five batches of two and one of one: steps 3 and 4 are graphs, 5 is not, 6 to 10 are.
TEST(PassGraphs, ABatchOfAnotherSizeIsComputedAsItIs) { expect_as_without({.batch = 2, .steps = 11}, 1, 7); }

// The loss's scale, samples, labels, words, and by what dropout draws are new in each step.
TEST(PassGraphs, WhatIsGivenChangesFromStepToStep) {
  expect_as_without({.model = "gpt[hidden=16,layers=2,heads=2,dropout=0.3]", .batch = 2, .steps = 9}, 1, 5);
  expect_as_without({.model = "transformer[hidden=16,layers=1,heads=2,dropout=0.3]", .batch = 2, .steps = 9, .label_smoothing = 0.1}, 1, 5);
}

TEST(PassGraphs, RunningStatisticsOfBatchNorm) { expect_as_without({.model = "resnet18", .batch = 4, .steps = 5, .shape = {3, 32, 32, 10}}, 1, 2); }

// Gradients of a worker alone add up in tensors of the graphs', those of several in buckets.
TEST(PassGraphs, MicroBatchesAddUp) {
  expect_as_without({.batch = 11, .steps = 6, .accumulate = 3}, 1, 3);
  expect_as_without({.batch = 11, .steps = 7, .accumulate = 3}, 2, 3);
  expect_as_without({.model = "gpt[hidden=16,layers=2,heads=2,dropout=0.3]", .batch = 11, .steps = 7, .accumulate = 2}, 2, 3);
}

// Once the order of gradients is known, after the first step, buckets are laid out anew: three steps more go before.
TEST(PassGraphs, BucketsLeaveFromWithinABackward) {
  expect_as_without({.strategy = "data[bucket=64KiB,first-bucket=16KiB]", .batch = 11, .steps = 7}, 2, 3);
  expect_as_without({.strategy = "data[overlap=off]", .batch = 11, .steps = 7}, 3, 3);
  expect_as_without({.strategy = "data[collective=ring]", .batch = 11, .steps = 7, .compression = "top-k[ratio=0.5]"}, 2, 3);
}

// Three steps go before the first recording, and three more after the plan has changed.
TEST(PassGraphs, ANewPlanIsRecordedAnew) {
  expect_as_without({.batch = 11, .steps = 12, .adopt_after = 6}, 1, 6);
  expect_as_without({.batch = 11, .steps = 12, .adopt_after = 6}, 2, 5);
}

TEST(PassGraphs, WhatIsRecomputed) {
  expect_as_without({.batch = 11, .steps = 6, .recompute = true}, 1, 3);
  expect_as_without({.model = "gpt[hidden=16,layers=2,heads=2,dropout=0.3]", .batch = 11, .steps = 7, .recompute = true}, 2, 3);
}

// Of the same scaled loss: a step whose gradients overflow is left out, and the next one has another scale.
TEST(PassGraphs, ScaledLossesAndClippedGradients) {
  expect_as_without({.batch = 11, .steps = 7, .type = at::kFloat, .precision = "bf16", .clip = 0.05}, 2, 3);
  expect_as_without({.batch = 1, .steps = 11, .type = at::kFloat, .precision = "fp16", .bright = 3}, 1, 8);
}

TEST(PassGraphs, ReplicasThatTrainAlone) { expect_as_without({.strategy = "local[every=2]", .batch = 11, .steps = 7}, 2, 3); }

// The step that could not be recorded, and all after it, are as without: nothing of the attempt is left.
TEST(PassGraphs, WhatCannotBeRecordedIsComputedAsItIs) {
  for (const auto& [ranks, after] : {std::pair{1, 0}, {1, 3}, {2, 1}, {2, 3}}) {
    // One of them has running statistics, which the attempt must leave as they were.
    const bool has_statistics = ranks == 1 && after == 3;
    Trial trial{.model = has_statistics ? "resnet18" : "lenet", .batch = has_statistics ? 4 : 11, .steps = 6, .accumulate = 2, .device = "delayed"};
    if (has_statistics) trial.shape = {3, 32, 32, 10};
    const auto without = outcomes_of(trial, ranks);
    trial.graphs = true;
    trial.unrecordable = after;
    const auto with = outcomes_of(trial, ranks);
    for (std::size_t rank = 0; rank < with.size(); ++rank) {
      EXPECT_NE(with[rank].graphs.why_not.find("could not be recorded: [delayed] this cannot be recorded"), std::string::npos) << with[rank].graphs.why_not;
      EXPECT_EQ(with[rank].graphs.steps, 0);
      EXPECT_EQ(with[rank].launches, 0);
      EXPECT_EQ(with[rank].losses, without[rank].losses);
      EXPECT_TRUE(same_bits(with[rank].parameters, without[rank].parameters));
      EXPECT_TRUE(same_bits(with[rank].buffers, without[rank].buffers));
    }
  }
}

TEST(PassGraphs, PlansThatHaveNoneSayWhy) {
  const auto why = [](const std::string& strategy, int ranks, const std::string& device) {
    Trial trial{.strategy = strategy, .batch = 8, .steps = 5, .device = device, .graphs = true};
    const auto outcomes = train(trial, ranks);
    EXPECT_EQ(outcomes[0].graphs.steps, 0) << strategy;
    return outcomes[0].graphs.why_not;
  };
  EXPECT_NE(why("data", 2, "cpu").find("nothing to record"), std::string::npos);
  EXPECT_NE(why("pipeline[schedule=1f1b,micro=2]", 2, "delayed").find("from stage to stage"), std::string::npos);
  EXPECT_NE(why("tensor", 2, "delayed").find("layers in parts"), std::string::npos);
  EXPECT_NE(why_no_pass_graphs(builtin_strategies().at("single").make({builtin_models().at("null").make(parse_spec("null"), Waves().shape()), 1, 8, 8, parse_spec("single"), {}, 1}), 0,
                                builtin_models().at("null").make(parse_spec("null"), Waves().shape())).find("layers that wait"), std::string::npos);
  EXPECT_NE(why("parameter-server", 2, "delayed").find("servers"), std::string::npos);
  // Of which no device has any yet.
  const auto graph = builtin_models().at("lenet").make(parse_spec("lenet"), Waves().shape());
  for (const auto* const strategy : {"sharded[level=1]", "sharded[level=2]", "sharded[level=3]"}) {
    const auto plan = builtin_strategies().at("sharded").make({graph, 2, 8, 8, parse_spec(strategy), {}, 1});
    EXPECT_NE(why_no_pass_graphs(plan, 0, graph).find("what shards hold"), std::string::npos) << strategy;
  }
}

}  // namespace
}  // namespace ddl::testing
