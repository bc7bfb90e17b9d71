#include "ddl/train/control.h"

#include <sys/socket.h>

#include <thread>

#include <gtest/gtest.h>

#include "ddl/core/error.h"

namespace ddl {
namespace {

std::pair<Control, Control> ends() {
  int fds[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  return {Control(fds[0]), Control(fds[1])};
}

TEST(Control, CarriesMessagesOfAnySizeInOrder) {
  auto [worker, coordinator] = ends();
  const std::string large(3 << 20, 'x');
  std::thread sender([&worker = worker, &large] {
    worker.send(MessageType::ready, "{}");
    worker.send(MessageType::epoch, large);
    worker.send(MessageType::done, "");
  });
  const auto first = coordinator.receive({5}), second = coordinator.receive({5}), third = coordinator.receive({5});
  sender.join();
  ASSERT_TRUE(first && second && third);
  EXPECT_EQ(first->type, MessageType::ready);
  EXPECT_EQ(first->body, "{}");
  EXPECT_EQ(second->body, large);
  EXPECT_EQ(third->type, MessageType::done);
  EXPECT_FALSE(coordinator.receive({0}));
}

TEST(Control, SaysWhenTheOtherEndIsGone) {
  auto [worker, coordinator] = ends();
  { const Control gone = std::move(worker); }
  EXPECT_THROW(coordinator.receive({1}), Error);
  EXPECT_THROW(coordinator.send(MessageType::stop, ""), Error);
}

TEST(Control, PacksStepsAndSpans) {
  const std::vector<StepRecord> steps{{1, 10, 20, 0.5, 3, 1e-9}, {2, 20, 30, 0.25, 3, 2e-9}};
  const std::vector<Span> spans{{10, 15, 1, 0, 1, Stream::compute, Cause::load}};
  std::vector<StepRecord> got_steps;
  std::vector<Span> got_spans;
  unpack(pack(steps, spans), got_steps, got_spans);
  ASSERT_EQ(got_steps.size(), 2U);
  EXPECT_EQ(got_steps[1].begin, 20);
  EXPECT_EQ(got_steps[1].loss, 0.25);
  EXPECT_EQ(got_steps[1].core_seconds, 2e-9);
  ASSERT_EQ(got_spans.size(), 1U);
  EXPECT_EQ(got_spans[0].cause, Cause::load);
  auto body = pack(steps, spans);
  body.pop_back();
  EXPECT_THROW(unpack(body, got_steps, got_spans), Error);
  EXPECT_THROW(unpack("", got_steps, got_spans), Error);
}

}  // namespace
}  // namespace ddl
