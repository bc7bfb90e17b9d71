#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/strategy/pipeline/schedules_testing.h"
#include "ddl/strategy/pipeline/steps.h"
#include "ddl/strategy/pipeline/timing.h"

namespace ddl {
namespace {

std::string words(const std::string& name, const PipelineShape& shape) {
  return fmt::format("{} P={} m={} v={}", name, shape.workers, shape.micro_batches, shape.chunks);
}

// Whole, halves and quarters: sums of them are exact.
const std::vector<PassSeconds> kCosts{{1, 1, 1}, {1, 1, 0}, {1, 1.5, 0.5}, {1, 2, 1}, {2, 1, 1}, {1, 1, 2}, {2, 3, 1}, {1, 3, 2}};

PipelineOrder make(const std::string& name, const PipelineShape& shape) { return builtin_pipeline_schedules().at(name).make.order(shape); }

std::string refusal(const std::string& name, const PipelineShape& shape) {
  try {
    make(name, shape);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument);
    return error.what();
  }
  return "";
}

TEST(PipelineSchedules, TakeEveryShapeThatTheyCanAndNoOther) {
  for (const auto& entry : builtin_pipeline_schedules().entries())
    for (const auto& shape : all_shapes()) EXPECT_EQ(refusal(entry.name, shape).empty(), takes(entry.name, shape)) << words(entry.name, shape);
}

TEST(PipelineSchedules, RefusalsNameWhatWouldDo) {
  EXPECT_EQ(refusal("interleaved-1f1b", {4, 6, 2}),
            "[pipeline] micro-batches of interleaved-1f1b are a multiple of its 4 workers; got 6, expected 4 or 8");
  EXPECT_EQ(refusal("interleaved-1f1b", {4, 3, 2}), "[pipeline] micro-batches of interleaved-1f1b are a multiple of its 4 workers; got 3, expected 4");
  EXPECT_EQ(refusal("interleaved-1f1b", {4, 8, 1}), "[pipeline] stages per worker (chunks) of interleaved-1f1b; got 1, expected 2 or more, or schedule 1f1b, which has 1");
  EXPECT_EQ(refusal("gpipe", {4, 8, 2}), "[pipeline] stages per worker (chunks) of gpipe; got 2, expected 1, or schedule interleaved-1f1b or looped-bfs, which have as many as they are told");
  EXPECT_EQ(refusal("zbv", {4, 8, 3}), "[pipeline] stages per worker (chunks) of zbv; got 3, expected 2");
  EXPECT_EQ(refusal("1f1b", {0, 8, 1}), "[pipeline] workers of 1f1b; got 0, expected 1 or more");
  EXPECT_EQ(refusal("zb-h1", {4, 0, 1}), "[pipeline] micro-batches of zb-h1; got 0, expected 1 or more");
  EXPECT_NE(refusal("pipedream", {4, 8, 1}).find("got 8, expected 1 (pipedream-2bw takes 4 or more)"), std::string::npos);
  EXPECT_NE(refusal("pipedream-2bw", {4, 3, 1}).find("got 3, expected 4 or more"), std::string::npos);
}

TEST(PipelineSchedules, LimitsOfChunksAreThoseOfTheOrder) {
  for (const auto& [name, summary, schedule, missing] : builtin_pipeline_schedules().entries())
    for (int chunks = 0; chunks < 6; ++chunks) {
      const bool within = chunks >= schedule.least_chunks && (schedule.most_chunks == 0 || chunks <= schedule.most_chunks);
      EXPECT_EQ(refusal(name, {1, 1, chunks}).empty(), within) << name << " " << chunks;
    }
}

// Once forward, once backward, on the stage's worker, in an order that ends, of one step and of several; with whole backwards or in
// parts as announced.
TEST(PipelineConformance, EveryMicroBatchGoesThroughEveryStageOnceAndBack) {
  for (const auto& [name, summary, schedule, missing] : builtin_pipeline_schedules().entries())
    for (const auto& shape : shapes_of(name)) {
      const auto order = schedule.order(shape);
      ASSERT_EQ(order.workers(), shape.workers) << words(name, shape);
      ASSERT_EQ(order.stages(), shape.stages()) << words(name, shape);
      const auto findings = verify(order, shape.micro_batches);
      EXPECT_TRUE(findings.empty()) << words(name, shape) << ": " << join(findings, "; ");
      bool ahead = false, splits = false;
      for (const auto& actions : order.actions)
        for (const auto& action : actions) {
          ahead |= action.ahead != 0;
          splits |= action.pass == Pass::backward_input;
        }
      EXPECT_EQ(ahead, !schedule.synchronous && shape.workers > 1) << words(name, shape);
      EXPECT_TRUE(schedule.splits_backward || !splits) << words(name, shape);
      if (shape.micro_batches >= 2 * shape.workers) {
        EXPECT_EQ(splits, schedule.splits_backward) << words(name, shape);
      }
      for (const int steps : {1, 3, 2 * shape.workers}) {
        const auto several = unroll(order, shape.micro_batches, steps);
        EXPECT_TRUE(verify(several, shape.micro_batches * steps).empty()) << words(name, shape);
        EXPECT_NO_THROW(time_pipeline(several, uniform_costs(shape.stages(), {}))) << words(name, shape);
      }
    }
}

TEST(PipelineConformance, HoldAsMuchAsTheySay) {
  for (const auto& [name, summary, schedule, missing] : builtin_pipeline_schedules().entries())
    for (const auto& shape : shapes_of(name)) {
      const auto steps = unroll(schedule.order(shape), shape.micro_batches, settled_steps(shape));
      const auto timing = time_pipeline(steps, uniform_costs(shape.stages(), {}));
      for (int worker = 0; worker < shape.workers; ++worker) {
        EXPECT_EQ(timing.workers[static_cast<std::size_t>(worker)].in_flight, schedule.in_flight(shape, worker))
            << words(name, shape) << " worker " << worker;
      }
    }
}

TEST(PipelineConformance, StandIdleAsPublished) {
  for (const auto& [name, summary, schedule, missing] : builtin_pipeline_schedules().entries())
    for (const auto& shape : shapes_of(name))
      for (const auto& seconds : kCosts) {
        const double step = step_seconds(schedule.order(shape), shape.micro_batches, uniform_costs(shape.stages(), seconds));
        const double busy = shape.micro_batches * shape.chunks * seconds.sum();
        const auto published = schedule.bubble(shape, seconds);
        const auto where = fmt::format("{} F={} B={} W={}", words(name, shape), seconds.forward, seconds.backward_input, seconds.backward_weight);
        if (published.exact) {
          EXPECT_NEAR(1 - busy / step, published.fraction, 1e-12) << where;
        } else {
          EXPECT_GE(1 - busy / step, published.fraction - 1e-12) << where;
        }
      }
}

// The same stated once more as seconds, and for one step alone: all but ZB-V and the asynchronous ones end where they began.
TEST(PipelineConformance, OneStepAloneTakesAsLong) {
  const auto makespan = [](const std::string& name, const PipelineShape& shape, const PassSeconds& seconds) {
    return time_pipeline(make(name, shape), uniform_costs(shape.stages(), seconds)).makespan_seconds;
  };
  for (const int P : {1, 2, 3, 4, 8})
    for (const int m : {8, 16, 24}) {
      for (const auto& seconds : kCosts) {
        const double one = seconds.sum();
        EXPECT_EQ(makespan("gpipe", {P, m}, seconds), (m + P - 1) * one);
        EXPECT_EQ(makespan("1f1b", {P, m}, seconds), (m + P - 1) * one);
        EXPECT_EQ(makespan("looped-bfs", {P, m, 3}, seconds), (3 * m + P - 1) * one);
        if (m % P == 0) {
          EXPECT_EQ(makespan("interleaved-1f1b", {P, m, 3}, seconds), (3 * m + P - 1) * one);
        }
        if (seconds.backward_weight <= seconds.forward) {
          EXPECT_EQ(makespan("zb-h1", {P, m}, seconds), m * one + (P - 1) * (seconds.forward + seconds.backward_input - seconds.backward_weight));
        }
      }
      if (m < 2 * P) continue;
      EXPECT_EQ(makespan("dualpipev", {P, m, 2}, {}), 6 * m + P - 1);
      // Worker w begins w late, as every first step does, and works without a pause.
      EXPECT_EQ(makespan("zbv", {P, m, 2}, {}), 6 * m + P - 1);
      for (int w = 0; w < P; ++w) {
        const auto worker = time_pipeline(make("zbv", {P, m, 2}), uniform_costs(2 * P, {})).workers[static_cast<std::size_t>(w)];
        EXPECT_EQ(worker.begin_seconds, w);
        EXPECT_EQ(worker.idle_seconds(), 0) << P << " " << m << " " << w;
      }
    }
}

// What each is for, at a size of practice: in order of time, and of memory.
TEST(PipelineSchedules, EarnWhatTheyCost) {
  const PassSeconds stage{1, 1, 1};
  const PassSeconds half{0.5, 0.5, 0.5};
  const auto seconds = [&](const std::string& name, int chunks) {
    return step_seconds(make(name, {8, 16, chunks}), 16, uniform_costs(8 * chunks, chunks == 1 ? stage : half));
  };
  EXPECT_EQ(seconds("gpipe", 1), 69);
  EXPECT_EQ(seconds("1f1b", 1), 69);
  EXPECT_EQ(seconds("interleaved-1f1b", 2), 58.5);
  EXPECT_EQ(seconds("zb-h1", 1), 55);
  EXPECT_EQ(seconds("dualpipev", 2), 51.5);
  EXPECT_EQ(seconds("zbv", 2), 48);
  EXPECT_EQ(seconds("pipedream-2bw", 1), 48);
}

TEST(OneForwardOneBackward, IsAsDrawnInThePaper) {
  const auto order = make("1f1b", {2, 3});
  const auto F = Pass::forward, B = Pass::backward;
  EXPECT_EQ(order.actions[0], (std::vector<Action>{{F, 0, 0}, {F, 0, 1}, {B, 0, 0}, {F, 0, 2}, {B, 0, 1}, {B, 0, 2}}));
  EXPECT_EQ(order.actions[1], (std::vector<Action>{{F, 1, 0}, {B, 1, 0}, {F, 1, 1}, {B, 1, 1}, {F, 1, 2}, {B, 1, 2}}));
}

TEST(ZeroBubbleV, PlacesStagesThereAndBack) { EXPECT_EQ(make("zbv", {3, 1, 2}).worker_of_stage, (std::vector<int>{0, 1, 2, 2, 1, 0})); }

TEST(InterleavedOneForwardOneBackward, PlacesStagesInALoop) {
  EXPECT_EQ(make("interleaved-1f1b", {3, 3, 2}).worker_of_stage, (std::vector<int>{0, 1, 2, 0, 1, 2}));
}

}  // namespace
}  // namespace ddl
