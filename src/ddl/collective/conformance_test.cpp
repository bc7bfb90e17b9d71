#include <cstring>
#include <mutex>

#include <gtest/gtest.h>

#include "ddl/collective/testing.h"

// Every collective over every transport. A new one of either is tested by being registered.
// Inputs are small integers, so that every order of summation is exact and the expected result has a closed form.

namespace ddl {
namespace {

using testing::buffer_of;
using testing::failure;
using testing::require;
using testing::run_group;

/// Rank r's element i. Sum over ranks: P(P+1)/2 * (i % 17 + 1), a multiple of P(P+1)/2.
double input(int rank, std::size_t i) { return (rank + 1) * static_cast<double>(i % 17 + 1); }

double expected(ReduceOp op, int ranks, std::size_t i) {
  const double unit = static_cast<double>(i % 17 + 1);
  switch (op) {
    case ReduceOp::sum: return ranks * (ranks + 1) / 2.0 * unit;
    case ReduceOp::average: return (ranks + 1) / 2.0 * unit;
    case ReduceOp::max: return ranks * unit;
    case ReduceOp::min: return unit;
  }
  return 0;
}

template <typename T>
void check_all_reduce(Communicator& group, const std::string& algorithm, std::size_t elements, ReduceOp op,
                      bool own_memory) {
  std::vector<T> outside(own_memory ? 0 : elements);
  std::span<T> values = outside;
  if (own_memory) values = {reinterpret_cast<T*>(group.transport().allocate(elements * sizeof(T)).data()), elements};
  for (int repeat = 0; repeat < 2; ++repeat) {
    for (std::size_t i = 0; i < elements; ++i) values[i] = static_cast<T>(input(group.rank(), i));
    group.all_reduce(buffer_of(values), op, algorithm).wait();
    for (std::size_t i = 0; i < elements; ++i)
      if (const T sum = static_cast<T>(expected(op, group.size(), i)); values[i] != sum)
        throw Error(Code::corrupt, fmt::format("{} of {} elements: element {}; got {}, expected {}", algorithm, elements, i,
                                               values[i], sum));
  }
}

std::vector<std::string> all_reduces() {
  std::vector<std::string> names;
  const auto registry = builtin_collectives();
  for (const auto& entry : registry.entries())
    if (entry.make.goal == Goal::all_reduce) names.push_back(entry.name);
  names.push_back("auto");
  return names;
}

class CollectiveConformance : public ::testing::TestWithParam<std::string> {};

TEST_P(CollectiveConformance, AllReducesEverySizeOnEveryGroup) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    const auto outcomes = run_group(GetParam(), ranks, [&](Communicator& group) {
      const auto p = static_cast<std::size_t>(ranks);
      for (const auto& algorithm : all_reduces())
        for (const std::size_t elements :
             {std::size_t{0}, std::size_t{1}, p - 1, p, p + 1, std::size_t{997}, std::size_t{100'003}})
          check_all_reduce<float>(group, algorithm, elements, ReduceOp::sum, elements % 2 == 0);
    });
    ASSERT_EQ(failure(outcomes), "") << ranks << " ranks";
  }
}

TEST_P(CollectiveConformance, AllReducesEveryTypeAndOperation) {
  for (const int ranks : {1, 2, 3, 4}) {
    const auto outcomes = run_group(GetParam(), ranks, [&](Communicator& group) {
      for (const auto& algorithm : all_reduces())
        for (const auto op : {ReduceOp::sum, ReduceOp::average, ReduceOp::max, ReduceOp::min})
          for (const std::size_t elements : {std::size_t{1}, std::size_t{4099}}) {
            check_all_reduce<float>(group, algorithm, elements, op, false);
            check_all_reduce<double>(group, algorithm, elements, op, true);
            check_all_reduce<std::int32_t>(group, algorithm, elements, op, true);
            check_all_reduce<std::int64_t>(group, algorithm, elements, op, false);
          }
    });
    ASSERT_EQ(failure(outcomes), "") << ranks << " ranks";
  }
}

TEST_P(CollectiveConformance, GivesTheSameBitsOnEveryRankAndEveryTime) {
  constexpr int kRanks = 5;
  constexpr std::size_t kElements = 10'007;
  for (const auto& algorithm : all_reduces()) {
    std::mutex mutex;
    std::vector<std::vector<float>> results;
    for (int run = 0; run < 2; ++run) {
      const auto outcomes = run_group(GetParam(), kRanks, [&](Communicator& group) {
        std::vector<float> values(kElements);
        // Of very different sizes, so that another order gives another sum.
        for (std::size_t i = 0; i < kElements; ++i)
          values[i] = 1.0F / static_cast<float>(i * 7 % 1013 + 1) * (group.rank() % 2 == 0 ? 1.0F : 1e4F) +
                      static_cast<float>(group.rank());
        group.all_reduce(buffer_of(std::span(values)), ReduceOp::average, algorithm).wait();
        const std::lock_guard lock(mutex);
        results.push_back(std::move(values));
      });
      ASSERT_EQ(failure(outcomes), "");
    }
    for (const auto& result : results)
      EXPECT_EQ(std::memcmp(result.data(), results[0].data(), kElements * sizeof(float)), 0) << algorithm;
  }
}

TEST_P(CollectiveConformance, BroadcastsFromEveryRoot) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    const auto outcomes = run_group(GetParam(), ranks, [&](Communicator& group) {
      for (int root = 0; root < ranks; ++root)
        for (const std::size_t elements : {std::size_t{0}, std::size_t{1}, std::size_t{1009}}) {
          std::vector<std::int64_t> values(elements, group.rank());
          group.broadcast(buffer_of(std::span(values)), root).wait();
          require(values == std::vector<std::int64_t>(elements, root), "broadcast");
        }
    });
    ASSERT_EQ(failure(outcomes), "") << ranks << " ranks";
  }
}

TEST_P(CollectiveConformance, LetsNobodyThroughABarrierEarly) {
  for (const int ranks : {1, 2, 3, 6}) {
    std::atomic<int> entered{0};
    const auto outcomes = run_group(GetParam(), ranks, [&](Communicator& group) {
      for (int round = 1; round <= 10; ++round) {
        ++entered;
        group.barrier(round % 2 == 0 ? Start::now : Start::at_wait).wait();
        require(entered >= round * ranks, "a rank left early");
        group.barrier().wait();
      }
    });
    ASSERT_EQ(failure(outcomes), "") << ranks << " ranks";
  }
}

TEST_P(CollectiveConformance, KeepsSeveralInFlight) {
  const auto outcomes = run_group(GetParam(), 3, [](Communicator& group) {
    constexpr std::size_t kFlights = 20;
    std::vector<std::vector<float>> values;
    std::vector<Handle> handles;
    for (std::size_t flight = 0; flight < kFlights; ++flight)
      values.emplace_back(100 * flight + 1, static_cast<float>(flight));
    for (std::size_t flight = 0; flight < kFlights; ++flight)
      handles.push_back(group.all_reduce(buffer_of(std::span(values[flight])), ReduceOp::sum,
                                         flight % 2 == 0 ? "ring" : "direct",
                                         flight % 3 == 0 ? Start::at_wait : Start::now));
    // Waiting for the last runs, or waits for, all before it.
    handles.back().wait();
    for (std::size_t flight = 0; flight < kFlights; ++flight) {
      require(handles[flight].done(), "order");
      handles[flight].wait();
      require(handles[flight].began() <= handles[flight].ended(), "times");
      require(flight == 0 || handles[flight - 1].ended() <= handles[flight].began(), "one after the other");
      require(values[flight] == std::vector<float>(100 * flight + 1, 3 * static_cast<float>(flight)), "sum");
    }
  });
  EXPECT_EQ(failure(outcomes), "");
}

TEST_P(CollectiveConformance, SaysThatRanksDisagreeOnTheSize) {
  for (const auto& algorithm : all_reduces())
    for (const int ranks : {2, 3, 4}) {
      const auto begin = now();
      const auto outcomes = run_group(GetParam(), ranks, [&](Communicator& group) {
        std::vector<float> values(group.rank() == 0 ? 400 : 300);
        group.all_reduce(buffer_of(std::span(values)), ReduceOp::sum, algorithm).wait();
      });
      EXPECT_LT(seconds(now() - begin), 5);
      int said = 0;
      for (const auto& outcome : outcomes) {
        if (!outcome) continue;
        if (outcome->code() == Code::invalid_argument) {
          ++said;
          EXPECT_NE(std::string(outcome->what()).find("ranks must start the same collectives on the same size"),
                    std::string::npos);
        } else {
          EXPECT_EQ(outcome->code(), Code::peer_lost) << outcome->what();
        }
      }
      EXPECT_GE(said, 1) << algorithm << " " << ranks << ": " << failure(outcomes);
    }
}

std::vector<std::string> names() { return builtin_transports().names(); }

INSTANTIATE_TEST_SUITE_P(Builtin, CollectiveConformance, ::testing::ValuesIn(names()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace ddl
