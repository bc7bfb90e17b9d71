#include "ddl/collective/communicator.h"

#include <gtest/gtest.h>

#include <mutex>
#include <set>

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
    require(code_of([&] { group.all_reduce({}, ReduceOp::sum, "barrier/dissemination"); }) == Code::invalid_argument, "goal");
    require(code_of([&] { group.run({Goal::all_reduce, ReduceOp::weighted_sum}, {nullptr, 0, ElementType::int32}); }) == Code::invalid_argument, "weights of integers");
    require(code_of([&] { group.group({}); }) == Code::invalid_argument, "group of nobody");
    require(code_of([&] { group.group({0, 0}); }) == Code::invalid_argument, "group that repeats");
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

// Of a group "auto" is asked by the group's own size.
TEST(Communicator, AutomaticIsOfAsManyRanksAsTakePart) {
  std::mutex guard;
  std::set<int> asked;
  CommunicatorOptions options{Seconds{20}};
  options.automatic = [&](Goal, std::size_t, int ranks) {
    const std::lock_guard lock(guard);
    asked.insert(ranks);
    return std::string("direct");
  };
  const auto outcomes = run_group("inproc", 4, [&](Communicator& all) {
    const auto pair = all.group(all.rank() < 2 ? std::vector{0, 1} : std::vector{2, 3});
    std::vector<float> values(10, 1);
    pair->run({Goal::all_reduce}, buffer_of(std::span(values)));
    require(values[9] == 2, "sum of two");
  }, options);
  EXPECT_EQ(failure(outcomes), "");
  EXPECT_EQ(asked, std::set<int>{2});
}

TEST(Communicator, WaitsUntilABufferIsReadyWithoutHoldingUpWhoStartedIt) {
  const auto outcomes = run_group("inproc", 2, [](Communicator& group) {
    std::vector<float> values(10, 0);
    std::atomic<bool> filled{false};
    const auto handle = group.all_reduce(buffer_of(std::span(values)), ReduceOp::sum, "auto", Start::now, [&] {
      while (!filled) std::this_thread::yield();
    });
    ::usleep(20'000);
    require(!handle.done(), "it waits");
    std::fill(values.begin(), values.end(), 1.0F);
    const auto ready = now();
    filled = true;
    handle.wait();
    require(values[9] == 2, "sum of what was filled in after the start");
    require(handle.began() >= ready, "the wait for the buffer is no part of the collective");
  });
  EXPECT_EQ(failure(outcomes), "");
}

TEST(Communicator, ABufferThatNeverBecomesReadyIsEveryRanksError) {
  const auto outcomes = run_group("inproc", 2, [](Communicator& group) {
    std::vector<float> values(10, 1);
    std::function<void()> ready;
    if (group.rank() == 1) ready = [] { throw std::runtime_error("the device is on fire"); };
    std::string said;
    try {
      group.all_reduce(buffer_of(std::span(values)), ReduceOp::sum, "auto", Start::now, ready).wait();
    } catch (const Error& error) {
      said = error.what();
    }
    require(said.find("the device is on fire") != std::string::npos, "says why; got " + said);
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
  }, {Seconds{0.1}});
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

TEST(Communicator, NamesTheOperationAndItsNumber) {
  const auto outcomes = run_group("shm", 2, [](Communicator& group) {
    group.barrier().wait();
    if (group.rank() == 0) group.run({Goal::all_reduce, ReduceOp::max}, {});
  });
  ASSERT_TRUE(outcomes[0]);
  EXPECT_EQ(std::string(outcomes[0]->what()), "[#2 all-reduce (direct, max) of 0 fp32] [shm] rank 0 lost rank 1: it left the group");
}

Prepared prepared(const char* algorithm, Goal goal, int rank, const CollectiveShape& shape) {
  return prepare(choose_algorithm(goal, algorithm).algorithm(rank, shape), goal, shape.root);
}

TEST(Prepare, FindsTheStepsThatCompleteTheirRange) {
  for (const char* name : {"ring", "direct"}) {
    const auto plan = prepared(name, Goal::all_reduce, 1, {4, 40});
    for (std::size_t round = 0; round < plan.facts.size(); ++round)
      EXPECT_EQ(plan.facts[round][1].final, round == 2 ? Extent::whole : Extent::none) << name << " " << round;
  }
  const auto partly = prepare({0, 2, 10, {{{StepKind::reduce, 1, {0, 10}}}, {{StepKind::receive, 1, {4, 6}}}}}, Goal::all_reduce, 0);
  EXPECT_EQ(partly.facts[0][0].final, Extent::partly);
}

TEST(Prepare, CompletesAReduceOnlyAtItsRoot) {
  // Rank 2 of 4 takes rank 3's and gives both to the root: no result of its own.
  EXPECT_EQ(prepared("binomial", Goal::reduce, 2, {4, 40}).facts[0][0].final, Extent::none);
  EXPECT_EQ(prepared("binomial", Goal::reduce, 0, {4, 40}).facts[1][0].final, Extent::whole);
  EXPECT_EQ(prepared("binomial", Goal::reduce, 0, {4, 40}).facts[0][0].final, Extent::none);
}

TEST(Prepare, KnowsWhatStillIsARanksOwn) {
  const auto plan = prepared("ring", Goal::all_reduce, 1, {4, 40});
  EXPECT_EQ(plan.facts[0][0].raw, Extent::whole);  // what it sends first
  EXPECT_EQ(plan.facts[0][1].raw, Extent::whole);  // what it adds to
  EXPECT_EQ(plan.facts[1][0].raw, Extent::none);   // a sum by now
  EXPECT_TRUE(plan.untouched.empty());
  EXPECT_EQ(prepared("ring", Goal::all_reduce, 0, {1, 40}).untouched, (std::vector<Range>{{0, 40}}));
}

TEST(Prepare, SeesThatDirectIsOnePass) {
  const auto plan = prepared("direct", Goal::all_reduce, 2, {4, 41});
  ASSERT_TRUE(plan.one_shot);
  EXPECT_EQ(plan.one_shot->mine, (Range{21, 31}));
  EXPECT_EQ(plan.one_shot->order, (std::vector{2, 3, 0, 1}));
  for (const char* other : {"ring", "recursive-doubling", "star"}) EXPECT_FALSE(prepared(other, Goal::all_reduce, 2, {4, 41}).one_shot);
}

}  // namespace
}  // namespace ddl
