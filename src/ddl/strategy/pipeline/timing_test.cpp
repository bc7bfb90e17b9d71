#include "ddl/strategy/pipeline/timing.h"

#include <gtest/gtest.h>

#include "ddl/core/error.h"

namespace ddl {
namespace {

constexpr auto F = Pass::forward, B = Pass::backward, I = Pass::backward_input, W = Pass::backward_weight;

std::string failure(const PipelineOrder& order) {
  try {
    time_pipeline(order, uniform_costs(order.stages(), {}));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument);
    return error.what();
  }
  return "";
}

TEST(PipelineTiming, AddsUpAlongTheCriticalPath) {
  const PipelineOrder order{{0, 1}, {{{F, 0, 0}, {B, 0, 0}}, {{F, 1, 0}, {B, 1, 0}}}};
  const PipelineCosts costs{{{1, 2, 4}, {8, 16, 32}}, 0.5};
  const auto timing = time_pipeline(order, costs);
  EXPECT_EQ(timing.makespan_seconds, 1 + 0.5 + 8 + 48 + 0.5 + 6);
  EXPECT_EQ(timing.workers[0].busy_seconds, 7);
  EXPECT_EQ(timing.workers[0].idle_seconds(), 57);
  EXPECT_EQ(timing.workers[1].begin_seconds, 1.5);
  EXPECT_EQ(timing.workers[1].end_seconds, 57.5);
  EXPECT_EQ(timing.workers[1].idle_seconds(), 0);
  EXPECT_EQ(timing.idle_seconds(1), 8);
}

TEST(PipelineTiming, NobodyWaitsForTheGradientOfWeights) {
  const PipelineOrder order{{0, 1}, {{{F, 0, 0}, {I, 0, 0}, {W, 0, 0}}, {{F, 1, 0}, {I, 1, 0}, {W, 1, 0}}}};
  const auto timing = time_pipeline(order, {{{1, 2, 4}, {8, 16, 32}}, 0.5});
  EXPECT_EQ(timing.workers[1].end_seconds, 57.5);
  EXPECT_EQ(timing.workers[0].end_seconds, 1 + 0.5 + 8 + 16 + 0.5 + 6);
}

TEST(PipelineTiming, TransfersAreFreeWithinAWorker) {
  const PipelineOrder order{{0, 0}, {{{F, 0, 0}, {F, 1, 0}, {B, 1, 0}, {B, 0, 0}}}};
  EXPECT_EQ(time_pipeline(order, uniform_costs(2, {1, 1, 1}, 100)).makespan_seconds, 6);
}

TEST(PipelineTiming, CountsWhatIsHeldFromForwardToTheGradientOfWeights) {
  const PipelineOrder order{{0, 0}, {{{F, 0, 0}, {F, 1, 0}, {F, 0, 1}, {I, 1, 0}, {F, 1, 1}, {W, 1, 0}, {B, 1, 1}, {B, 0, 0}, {B, 0, 1}}}};
  const auto timing = time_pipeline(order, uniform_costs(2, {}));
  EXPECT_EQ(timing.workers[0].in_flight, 4);
  EXPECT_EQ(timing.in_flight_of_stage, (std::vector<int>{2, 2}));
}

TEST(PipelineTiming, SaysWhoWaitsForWhomInADeadlock) {
  const PipelineOrder crossed{{0, 1}, {{{F, 0, 0}, {B, 0, 0}, {F, 0, 1}, {B, 0, 1}}, {{F, 1, 1}, {B, 1, 1}, {F, 1, 0}, {B, 1, 0}}}};
  EXPECT_EQ(failure(crossed),
            "[pipeline] the order never ends: worker 0 waits in backward of stage 0, micro-batch 0 for backward_input of stage 1, micro-batch 0 of "
            "worker 1; worker 1 waits in forward of stage 1, micro-batch 1 for forward of stage 0, micro-batch 1 of worker 0");
  const PipelineOrder lacking{{0, 1}, {{{F, 0, 0}}, {{F, 1, 0}, {B, 1, 0}, {F, 1, 1}}}};
  EXPECT_EQ(failure(lacking),
            "[pipeline] the order never ends: worker 1 waits in forward of stage 1, micro-batch 1 for forward of stage 0, micro-batch 1 of worker 0");
  EXPECT_EQ(failure({{0}, {{{W, 0, 0}}}}),
            "[pipeline] the order never ends: worker 0 waits in backward_weight of stage 0, micro-batch 0 for backward_input of stage 0, "
            "micro-batch 0 of worker 0");
}

TEST(PipelineTiming, RefusesWhatItCannotRead) {
  EXPECT_NE(failure({{0}, {{{F, 1, 0}}}}).find("got forward of stage 1, micro-batch 0"), std::string::npos);
  EXPECT_NE(failure({{0}, {{{F, 0, 0, 1}}}}).find("batch +1"), std::string::npos);
  EXPECT_THROW(time_pipeline({{0}, {{}}}, {}), Error);
  EXPECT_EQ(failure({{0}, {{}}}), "");
}

// Ten thousand micro-batches over 64 workers in a moment: work grows with the actions, not with who waits.
TEST(PipelineTiming, TakesLongOrders) {
  const auto order = one_forward_one_backward().order({64, 10'000});
  EXPECT_EQ(time_pipeline(order, uniform_costs(64, {1, 1, 1})).makespan_seconds, 3 * (10'000 + 63));
}

TEST(PipelineOrder, VerifyFindsEachFault) {
  const PipelineOrder good{{0}, {{{F, 0, 0}, {I, 0, 0}, {W, 0, 0}}}};
  EXPECT_TRUE(verify(good, 1).empty());
  const auto faults = [](std::vector<Action> actions, std::vector<int> placement = {0}) { return verify({placement, {std::move(actions)}}, 1).size(); };
  EXPECT_EQ(faults({{F, 0, 0}}), 1U);                                    // no backward
  EXPECT_EQ(faults({{F, 0, 0}, {I, 0, 0}}), 1U);                         // half of one
  EXPECT_EQ(faults({{F, 0, 0}, {B, 0, 0}, {B, 0, 0}}), 1U);              // twice
  EXPECT_EQ(faults({{B, 0, 0}, {F, 0, 0}}), 1U);                         // the wrong way round
  EXPECT_EQ(faults({{F, 0, 0}, {W, 0, 0}, {I, 0, 0}}), 1U);
  EXPECT_EQ(faults({{F, 0, 0}, {B, 0, 0, 1}}), 1U);                      // a backward ahead
  EXPECT_EQ(faults({{F, 0, 0}, {B, 0, 0}, {F, 0, 1}}), 1U);              // a micro-batch that there is not
  EXPECT_EQ(faults({{F, 0, 0}, {B, 0, 0}}, {1}), 2U);                    // on a worker that has other stages
  EXPECT_EQ(faults({{B, 0, 0}, {F, 0, 0, 1}}), 0U);                      // of the next batch
}

}  // namespace
}  // namespace ddl
