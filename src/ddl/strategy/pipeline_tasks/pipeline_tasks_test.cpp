#include <gtest/gtest.h>

#include "ddl/core/spec.h"
#include "ddl/nn/builtin.h"
#include "ddl/nn/split/split.h"
#include "ddl/strategy/builtin.h"
#include "ddl/strategy/pipeline/schedules.h"
#include "ddl/strategy/pipeline_tasks/buckets.h"
#include "ddl/strategy/pipeline_tasks/groups.h"
#include "ddl/strategy/pipeline_tasks/layout.h"
#include "ddl/strategy/pipeline_tasks/messages.h"

// The parts that pipeline_plan() puts together, each by itself. Whole plans: strategy_test.cpp.
namespace ddl {
namespace {

ModelGraph network(const std::string& name) { return builtin_models().at(name).make({name, {}}, natural_shape(name)); }

int layers_of(const ModelGraph& graph) { return static_cast<int>(graph.layers.size()); }

StrategyInput input_of(const ModelGraph& graph) { return {graph, 4, 64, 4, {"pipeline", {}}, {}}; }

Pipeline halves(const ModelGraph& graph, PipelineOrder order, int micro_batches) { return {std::move(order), {0, layers_of(graph) / 2}, micro_batches}; }

TEST(PipelineLayout, StagesOfWholeLayersAreOneSegmentEach) {
  const auto graph = network("resnet18");
  const auto input = input_of(graph);
  const auto form = halves(graph, one_forward_one_backward().order({2, 4}), 4);
  const PipelineLayout layout(input, form);
  ASSERT_EQ(layout.segments.size(), 2U);
  EXPECT_EQ(layout.samples, 16);
  EXPECT_EQ(layout.places_of(1), (std::vector<int>{1}));
  EXPECT_EQ(layout.stages_at(0), (std::vector<int>{0}));
  ASSERT_FALSE(layout.crossings.empty());
  for (const auto& crossing : layout.crossings) EXPECT_TRUE(crossing.is_message && crossing.returns && crossing.bytes == crossing.gradient_bytes);
  EXPECT_FALSE(layout.gives_back(0));
  EXPECT_TRUE(layout.gives_back(1));
}

TEST(PipelineLayout, SplitStagesAreCutBeforeExchanges) {
  const auto whole = network("gpt");
  const auto graph = split_graph(whole, {{split_options({"tensor", {{"split", "megatron"}}})[0], 2}}, 0);
  const auto input = input_of(graph);
  auto form = halves(graph, one_forward_one_backward().order({2, 4}), 4);
  form.parts = {2};
  const PipelineLayout layout(input, form);
  ASSERT_GT(layout.segments.size(), 4U);
  for (int segment = 0; segment < static_cast<int>(layout.segments.size()); ++segment) {
    const int first = layout.segments[static_cast<std::size_t>(segment)].first;
    EXPECT_TRUE(first == 0 || first == form.cuts[1] || communicates(graph.layers[static_cast<std::size_t>(first)]));
    EXPECT_EQ(layout.stage_of_segment[static_cast<std::size_t>(segment)], first < form.cuts[1] ? 0 : 1);
  }
  // Backward takes the segments of a stage from the last to the first.
  const auto forward = layout.by_segment({Pass::forward, 0, 3}), backward = layout.by_segment({Pass::backward, 0, 3});
  ASSERT_EQ(forward.size(), layout.segments_of_stage[0].size());
  EXPECT_EQ(forward.front().stage, 0);
  EXPECT_EQ(backward.front().stage, forward.back().stage);
  EXPECT_EQ(backward.back().stage, 0);
}

TEST(PipelineMessages, GoToWhoeverHasTheMicroBatch) {
  const auto graph = network("alexnet");
  const auto input = input_of(graph);
  const auto form = halves(graph, one_forward_one_backward().replicated({2, 1}, 5), 5);
  const PipelineLayout layout(input, form);
  EXPECT_EQ(layout.places_of(0), (std::vector<int>{0, 1}));
  const PipelineMessages messages(layout);
  for (int micro_batch = 0; micro_batch < 5; ++micro_batch) {
    const auto made = messages.made_by({Pass::forward, 0, micro_batch});
    ASSERT_EQ(made.size(), 1U);
    EXPECT_EQ(messages.sender(made[0]), micro_batch % 2);
    EXPECT_EQ(messages.receiver(made[0]), 2);
    EXPECT_EQ(messages.number_of(made[0]), static_cast<std::size_t>(micro_batch / 2));
    const auto back = messages.made_by({Pass::backward, 1, micro_batch});
    ASSERT_EQ(back.size(), 1U);
    EXPECT_EQ(messages.receiver(back[0]), micro_batch % 2);
    EXPECT_TRUE(messages.made_by({Pass::backward_weight, 1, micro_batch}).empty());
  }
}

TEST(Inbox, PostsWhatIsSentBeforeFirst) {
  const auto graph = network("alexnet");
  const auto input = input_of(graph);
  const auto form = halves(graph, gpipe().order({2, 4}), 4);
  const PipelineLayout layout(input, form);
  const PipelineMessages messages(layout);
  const auto third = messages.needed_by({Pass::forward, 1, 2}), first = messages.needed_by({Pass::forward, 1, 0});
  Role role;
  Inbox in_order(messages, true);
  EXPECT_EQ(in_order.receive(role, third.at(0), 0), 2);
  EXPECT_EQ(in_order.receive(role, first.at(0), 0), 0);
  EXPECT_EQ(role.tasks.size(), 3U);
  Inbox alone(messages, false);
  EXPECT_EQ(alone.receive(role, third.at(0), 0), 3);
}

// Told after the gradients of weights, which nobody else waits for, steps would end together; the norm of the gradient is known only then.
TEST(PipelinePlan, ControlIsToldWhenNobodyWaitsForTheWorkerAnyMore) {
  const auto graph = network("resnet18");
  for (const auto* form : {"pipeline[schedule=1f1b,micro=6]", "pipeline[schedule=zb-h1,micro=6]", "pipeline[schedule=zbv,micro=6]", "pipeline[schedule=dualpipev,micro=6]"})
    for (const bool whole_gradient : {false, true}) {
      StrategyInput input{graph, 3, 12, 4, parse_spec(form), {}};
      input.whole_gradient = whole_gradient;
      const auto plan = builtin_strategies().at("pipeline").make(input);
      for (const auto& role : plan.roles) {
        int told = kNone, last = kNone, last_for_others = kNone;
        for (int t = 0; t < static_cast<int>(role.tasks.size()); ++t) {
          const auto& task = role.tasks[static_cast<std::size_t>(t)];
          const bool of_weights = task.kind == TaskKind::backward_weight;
          if (of_weights || task.kind == TaskKind::backward || task.kind == TaskKind::backward_input) last = t;
          if (!of_weights && last == t) last_for_others = t;
          if (task.cargo == Cargo::control) told = t;
        }
        ASSERT_NE(told, kNone) << form;
        EXPECT_EQ(role.tasks[static_cast<std::size_t>(told)].after, (std::vector<int>{whole_gradient ? last : last_for_others})) << form << ", " << role.name;
      }
    }
}

// The words of the GPT are read in its first layer, and in its last.
TEST(GradientBuckets, WhatSeveralPlacesUseTheyAddUpTogether) {
  const auto graph = network("gpt");
  const auto input = input_of(graph);
  const auto form = halves(graph, one_forward_one_backward().order({2, 4}), 4);
  const PipelineLayout layout(input, form);
  PipelineGroups groups(form);
  const auto made = groups.all().size();
  const auto buckets = gradient_buckets(layout, groups);
  ASSERT_EQ(buckets.size(), 2U);
  for (const auto& own : buckets) {
    ASSERT_EQ(own.size(), 1U) << "nobody else has the rest";
    EXPECT_EQ(own[0].bucket.stage, kNone);
    EXPECT_EQ(own[0].group, static_cast<int>(made));
  }
  EXPECT_EQ(groups.all().size(), made + 1);
  EXPECT_EQ(groups.all().back().name, "tied 0");
}

}  // namespace
}  // namespace ddl
