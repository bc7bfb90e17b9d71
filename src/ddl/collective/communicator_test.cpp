#include "ddl/collective/communicator.h"

#include <gtest/gtest.h>

#include "ddl/collective/execute.h"
#include "ddl/collective/testing.h"

namespace ddl {
namespace {

using testing::buffer_of;
using testing::failure;
using testing::require;
using testing::run_group;

template <typename Body>
Code code_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.code();
  }
  throw Error(Code::corrupt, "no error");
}

TEST(Communicator, RefusesAnAlgorithmOrRootThatDoesNotExist) {
  const auto outcomes = run_group("inproc", 1, [](Communicator& group) {
    require(code_of([&] { group.all_reduce({}, ReduceOp::sum, "rign"); }) == Code::not_found, "name");
    require(code_of([&] { group.all_reduce({}, ReduceOp::sum, "barrier"); }) == Code::invalid_argument, "goal");
    require(code_of([&] { group.broadcast({}, 1); }) == Code::invalid_argument, "root");
    group.barrier().wait();
  });
  EXPECT_EQ(failure(outcomes), "");
}

TEST(Communicator, RunsInTheBackground) {
  const auto outcomes = run_group("inproc", 2, [](Communicator& group) {
    std::vector<float> values(10, 1);
    const auto handle = group.all_reduce(buffer_of(std::span(values)), ReduceOp::sum);
    for (const auto until = now() + 20'000'000'000; !handle.done() && now() < until;) std::this_thread::yield();
    require(handle.done(), "done without wait()");
    require(values[9] == 2, "sum");
  });
  EXPECT_EQ(failure(outcomes), "");
}

TEST(Communicator, TimesOutNamingTheRankAndStaysFailed) {
  std::atomic<bool> given_up{false};
  const auto outcomes = run_group("inproc", 2, [&](Communicator& group) {
    if (group.rank() == 1) {
      while (!given_up) ::usleep(1000);
      return;
    }
    std::string said;
    try {
      group.barrier().wait();
    } catch (const Error& error) {
      said = error.what();
    }
    const auto again = code_of([&] { group.barrier().wait(); });
    given_up = true;
    require(said.ends_with("rank 1 did not come"), said);
    require(again == Code::timeout, "stays failed");
  }, Seconds{0.1});
  EXPECT_EQ(failure(outcomes), "");
}

TEST(Communicator, EndsWithWhatIsPending) {
  for (const auto start : {Start::now, Start::at_wait}) {
    Handle running, queued;
    const auto begin = now();
    std::atomic<bool> ended{false};
    const auto outcomes = testing::run_ranks(2, [&](Rendezvous& meeting) {
      auto transport = builtin_transports().at("inproc").make(meeting, {});
      if (meeting.rank() == 1) {
        while (!ended) ::usleep(1000);
        return;
      }
      {
        Communicator group(std::move(transport), Seconds{20});
        running = group.barrier(start);
        queued = group.barrier(start);
        ::usleep(10'000);
      }
      ended = true;
    });
    EXPECT_EQ(failure(outcomes), "");
    EXPECT_LT(seconds(now() - begin), 5);
    // Handles outlive the communicator.
    EXPECT_TRUE(running.done() && queued.done());
    EXPECT_EQ(code_of([&] { running.wait(); }), Code::interrupted);
    EXPECT_EQ(code_of([&] { queued.wait(); }), Code::interrupted);
  }
}

TEST(Communicator, LosesARankThatEnds) {
  const auto outcomes = run_group("shm", 2, [](Communicator& group) {
    if (group.rank() == 0) group.barrier().wait();
  });
  ASSERT_TRUE(outcomes[0]);
  EXPECT_EQ(outcomes[0]->code(), Code::peer_lost);
}

TEST(Prepare, FindsTheStepsThatCompleteTheirRange) {
  const auto registry = builtin_collectives();
  for (const std::string name : {"ring", "direct"}) {
    const auto prepared = prepare(registry.at(name).make.schedule(1, {4, 40, 0}));
    for (std::size_t round = 0; round < prepared.finals.size(); ++round)
      EXPECT_EQ(prepared.finals[round][1], round == 2 ? Final::yes : Final::no) << name << " " << round;
  }
  const auto partly = prepare({0, 2, 10, {{{StepKind::reduce, 1, {0, 10}}}, {{StepKind::receive, 1, {4, 6}}}}});
  EXPECT_EQ(partly.finals[0][0], Final::partly);
}

}  // namespace
}  // namespace ddl
