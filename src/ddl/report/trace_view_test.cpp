#include "ddl/report/trace_view.h"

#include <gtest/gtest.h>

#include "ddl/report/lanes.h"
#include "ddl/report/synthetic_pipeline.h"

namespace ddl {
namespace {

TEST(TraceView, JoinsSpansWithTheirTasks) {
  const auto view = view_trace(synthetic_pipeline(2, 3, 1));
  ASSERT_FALSE(view.empty());
  EXPECT_EQ(view.ranks(), (std::vector<int>{0, 1}));
  int forwards = 0;
  for (const auto& each : view.spans)
    if (each.task.kind == "forward") {
      EXPECT_EQ(each.task.stage, each.span.worker);
      EXPECT_EQ(each.task.micro_batch, forwards++ / 2);
      EXPECT_EQ(each.span.end - each.span.begin, 100'000);
    }
  EXPECT_EQ(forwards, 6);
  EXPECT_EQ(view.steps.size(), 2U);
  EXPECT_EQ((view.steps.at({10, 1}).begin), 0);
}

TEST(TraceView, FlowsGoFromSendToReceive) {
  const auto view = view_trace(synthetic_pipeline(3, 4, 2));
  const auto found = flows(view);
  EXPECT_EQ(found.size(), 2U * 2 * 2 * 4) << "steps, directions, boundaries, micro-batches";
  for (const auto& [send, receive] : found) {
    const auto &from = view.spans[send], &to = view.spans[receive];
    EXPECT_EQ(from.task.kind, "send");
    EXPECT_EQ(to.task.kind, "receive");
    EXPECT_EQ(from.span.meeting, to.span.meeting);
    EXPECT_EQ(from.span.step, to.span.step);
    EXPECT_EQ(std::abs(from.span.worker - to.span.worker), 1);
    EXPECT_EQ(from.task.micro_batch, to.task.micro_batch);
  }
}

TEST(TraceView, ReadsRecordsOfOtherVersionsAndRubbish) {
  Json record = synthetic_pipeline();
  record.erase("plan");
  record.erase("trace_steps");
  for (auto& entry : record["trace"]) entry.erase("meeting");
  const auto old = view_trace(record);
  EXPECT_FALSE(old.steps_told);
  EXPECT_EQ(old.steps.size(), 4U);
  EXPECT_TRUE(flows(old).empty());
  EXPECT_EQ(old.spans[0].task.kind, "");

  record["plan"] = {{"roles", {{{"first", 0}, {"count", 1e300}, {"tasks", "x"}}, 3}}};
  record["trace"] = {{{"rank", -4}, {"begin_us", 0}, {"end_us", 1}}, {{"rank", 1e9}, {"begin_us", 0}, {"end_us", 1}}, {{"begin_us", 5}, {"end_us", 1}},
                     {{"begin_us", 1e300}, {"end_us", 1e301}}, {{"begin_us", 1}, {"end_us", 2}, {"stream", "other"}, {"cause", "new"}, {"meeting", -1}}, 7};
  const auto odd = view_trace(record);
  ASSERT_EQ(odd.spans.size(), 1U);
  EXPECT_EQ(odd.spans[0].cause, "new");
  EXPECT_EQ(odd.spans[0].stream, "other");
  EXPECT_EQ(odd.spans[0].span.cause, Cause::residual);
  EXPECT_TRUE(view_trace(Json("x")).empty());
}

TEST(Lanes, OneForEachStreamWhereNothingOverlaps) {
  const auto view = view_trace(synthetic_record({}));
  const auto lanes = lanes_of(view);
  ASSERT_EQ(lanes.lanes.size(), 2U);
  EXPECT_EQ(lanes.lanes[0].name, "compute");
  EXPECT_EQ(lanes.lanes[1].name, "communication");
  EXPECT_EQ(lanes.lanes[1].number, 2);
}

TEST(Lanes, OneForEachQueueWhereMessagesOverlap) {
  // The middle one of three receives from both sides, and waits for one while it sends to the other.
  const auto view = view_trace(synthetic_pipeline(3, 4, 1));
  const auto lanes = lanes_of(view);
  std::vector<std::string> names;
  for (const auto& lane : lanes.lanes)
    if (lane.rank == 1) names.push_back(lane.name);
  EXPECT_EQ(names, (std::vector<std::string>{"compute", "communication: receive activation gradients", "communication: receive activations",
                                             "communication: send activation gradients", "communication: send activations"}));
  for (std::size_t i = 0; i < view.spans.size(); ++i) EXPECT_EQ(lanes.lanes[lanes.of_span[i]].rank, view.spans[i].span.worker);
  // Within a lane, events nest.
  for (std::size_t a = 0; a < view.spans.size(); ++a)
    for (std::size_t b = 0; b < view.spans.size(); ++b) {
      const auto &one = view.spans[a].span, &other = view.spans[b].span;
      EXPECT_FALSE(lanes.of_span[a] == lanes.of_span[b] && one.begin < other.begin && other.begin < one.end && one.end < other.end);
    }
}

}  // namespace
}  // namespace ddl
