#include <cmath>
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

using testing::Number;
using testing::names_of;

/// Rank r's element i: small integers, which every type holds exactly, and their sums over nine ranks too. Sum over ranks:
/// P(P+1)/2 * (i % 5 + 1).
double input(int rank, std::size_t i) { return (rank + 1) * static_cast<double>(i % 5 + 1); }

/// Of a weighted sum: powers of two, so that products are exact.
double factor_of(int rank) { return rank % 2 == 0 ? 0.5 : 2; }

double expected(ReduceOp op, int ranks, double unit, bool integer) {
  switch (op) {
    case ReduceOp::sum: return ranks * (ranks + 1) / 2.0 * unit;
    case ReduceOp::average: {
      const double average = (ranks + 1) / 2.0 * unit;
      return integer ? std::trunc(average) : average;
    }
    case ReduceOp::max: return ranks * unit;
    case ReduceOp::min: return unit;
    case ReduceOp::weighted_sum: {
      double sum = 0;
      for (int rank = 0; rank < ranks; ++rank) sum += factor_of(rank) * (rank + 1) * unit;
      return sum;
    }
  }
  return 0;
}

/// A buffer of any type, in the transport's memory or outside. Many millions of elements are written and read here: long ones are fp32, without a choice of type for each.
class Values {
 public:
  Values(Communicator& group, std::size_t elements, ElementType type, bool own_memory)
      : outside_(own_memory ? 0 : elements * size_of(type)), buffer_{outside_.data(), elements, type} {
    if (own_memory) buffer_.data = group.transport().allocate(elements * size_of(type)).data();
  }
  double operator[](std::size_t i) const { return Number::read(buffer_.type, buffer_.data, i); }
  void set(std::size_t i, double value) { Number::write(buffer_.type, buffer_.data, i, value); }
  void set(const std::vector<double>& values) {
    if (buffer_.type == ElementType::fp32) {
      auto* const own = reinterpret_cast<float*>(buffer_.data);
      for (std::size_t i = 0; i < values.size(); ++i) own[i] = static_cast<float>(values[i]);
    } else {
      for (std::size_t i = 0; i < values.size(); ++i) set(i, values[i]);
    }
  }
  /// The first element that is another; as many as there are where none is. What must be NaN may be anything.
  std::size_t first_but(const std::vector<double>& right) const {
    if (buffer_.type == ElementType::fp32) {
      const auto* const own = reinterpret_cast<const float*>(buffer_.data);
      for (std::size_t i = 0; i < right.size(); ++i)
        if (static_cast<double>(own[i]) != right[i] && right[i] == right[i]) return i;
    } else {
      for (std::size_t i = 0; i < right.size(); ++i)
        if ((*this)[i] != right[i] && right[i] == right[i]) return i;
    }
    return right.size();
  }
  const Buffer& buffer() const { return buffer_; }
  std::vector<std::byte> bytes() const { return {buffer_.data, buffer_.data + buffer_.elements * size_of(buffer_.type)}; }

 private:
  std::vector<std::byte> outside_;
  Buffer buffer_;
};

std::vector<double> inputs(int rank, std::size_t elements) {
  std::vector<double> all(elements);
  for (std::size_t i = 0; i < elements; ++i) all[i] = input(rank, i);
  return all;
}

/// What must be where after a collective over inputs(); a NaN: anything.
std::vector<double> results(const Collective& what, int ranks, int rank, std::size_t elements, bool integer) {
  double reduced[5];
  for (int unit = 1; unit <= 5; ++unit) reduced[unit - 1] = expected(what.op, ranks, unit, integer);
  std::vector<double> all(elements, std::nan(""));
  const auto sums = [&](Range where) {
    for (std::size_t i = where.begin; i < where.end; ++i) all[i] = reduced[i % 5];
  };
  const auto copies = [&](Range where, int from, std::size_t first) {
    for (std::size_t i = where.begin; i < where.end; ++i) all[i] = input(from, first + i - where.begin);
  };
  const Range whole{0, elements}, own = part_of(elements, ranks, rank);
  switch (what.goal) {
    case Goal::all_reduce: sums(whole); break;
    case Goal::reduce:
      if (rank == what.root) sums(whole);
      break;
    case Goal::reduce_scatter: sums(own); break;
    case Goal::broadcast: copies(whole, what.root, 0); break;
    case Goal::all_gather:
    case Goal::gather:
      for (int part = 0; part < ranks && (what.goal == Goal::all_gather || rank == what.root); ++part) copies(part_of(elements, ranks, part), part, part_of(elements, ranks, part).begin);
      break;
    case Goal::scatter: copies(own, what.root, own.begin); break;
    case Goal::all_to_all:
      for (int part = 0; part < ranks; ++part) copies(part_of(elements, ranks, part), part, own.begin);
      break;
    case Goal::point_to_point:
      if (rank == what.peer) copies(whole, what.root, 0);
      break;
    case Goal::barrier: break;
  }
  return all;
}

void check(Communicator& group, Collective what, std::size_t elements, ElementType type, bool own_memory) {
  const bool integer = type == ElementType::int32 || type == ElementType::int64;
  if (what.op == ReduceOp::weighted_sum && integer) return;
  if (what.goal == Goal::all_to_all) elements -= elements % static_cast<std::size_t>(group.size());
  what.factor = factor_of(group.rank());
  Values values(group, elements, type, own_memory);
  const auto given = inputs(group.rank(), elements), right = results(what, group.size(), group.rank(), elements, integer);
  for (int repeat = 0; repeat < 2; ++repeat) {
    values.set(given);
    if (repeat == 0)
      group.run(what, values.buffer());
    else
      group.start(what, values.buffer()).wait();
    if (const auto i = values.first_but(right); i < elements)
      throw Error(Code::corrupt, fmt::format("{} {} ({}) of {} {}: element {}; got {}, expected {}", name(what.goal), what.algorithm,
                                             name(what.op), elements, name(type), i, values[i], right[i]));
  }
}

/// Every algorithm of every goal, in several forms, with every root.
std::vector<Collective> collectives(int ranks) {
  static const std::vector<std::string> forms{"ring[segment=1KiB]", "tree[segment=2KiB]", "double-tree[segment=512B]",
                                              "hierarchical[within=ring,between=recursive-doubling]", "auto"};
  static const auto registry = builtin_collectives();
  static const auto names = names_of(registry);
  std::vector<Collective> all;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto goal = registry.entries()[i].make.goal;
    if (goal == Goal::barrier || (goal == Goal::point_to_point && ranks == 1)) continue;
    for (int root = 0; root < (has_root(goal) ? ranks : 1); ++root)
      all.push_back({goal, ReduceOp::sum, names[i], 1, root, (root + 1) % ranks});
  }
  for (const auto& form : forms) all.push_back({Goal::all_reduce, ReduceOp::sum, form});
  if (testing::native_under_test())
    for (const auto goal : kGoals) {
      if (goal == Goal::barrier || goal == Goal::point_to_point) continue;
      for (int root = 0; root < (has_root(goal) ? ranks : 1); ++root) all.push_back({goal, ReduceOp::sum, "native", 1, root});
    }
  return all;
}

std::vector<std::string> all_reduces() {
  std::vector<std::string> names;
  for (const auto& what : collectives(2))
    if (what.goal == Goal::all_reduce) names.emplace_back(what.algorithm);
  return names;
}

class CollectiveConformance : public ::testing::TestWithParam<std::string> {};

/// Hosts of two ranks each, so that hierarchical has something to do.
testing::Outcomes run_hosted(const std::string& transport, int ranks, const std::function<void(Communicator&)>& body) {
  CommunicatorOptions options{Seconds{20}};
  for (int rank = 0; rank < ranks; ++rank) options.hosts.push_back(rank / 2);
  return run_group(transport, ranks, body, options);
}

TEST_P(CollectiveConformance, DoesEverySizeOnEveryGroup) {
  for (int ranks = 1; ranks <= testing::most_ranks(); ++ranks) {
    const auto outcomes = run_hosted(GetParam(), ranks, [&](Communicator& group) {
      const auto p = static_cast<std::size_t>(ranks);
      for (const auto& what : collectives(ranks))
        for (const std::size_t elements : {std::size_t{0}, std::size_t{1}, p - 1, p, p + 1, std::size_t{997}, std::size_t{100'003}}) {
          if (elements > 1000 && what.root != 0) continue;
          check(group, what, elements, ElementType::fp32, elements % 2 == 0);
        }
    });
    ASSERT_EQ(failure(outcomes), "") << ranks << " ranks";
  }
}

TEST_P(CollectiveConformance, DoesEveryTypeAndOperation) {
  for (const int ranks : testing::possible({1, 2, 3, 4})) {
    const auto outcomes = run_hosted(GetParam(), ranks, [&](Communicator& group) {
      for (auto what : collectives(ranks))
        for (const auto op : kReduceOps)
          for (const auto type : kElementTypes)
            for (const std::size_t elements : {std::size_t{1}, std::size_t{1031}}) {
              if (!reduces(what.goal) && (op != ReduceOp::sum || what.root != 0)) continue;
              what.op = op;
              check(group, what, elements, type, type == ElementType::fp64 || type == ElementType::fp16);
            }
    });
    ASSERT_EQ(failure(outcomes), "") << ranks << " ranks";
  }
}

TEST_P(CollectiveConformance, ReducesInMemoryOfItsOwnAndOfOthersAtOnce) {
  for (const int ranks : testing::possible({2, 3, 5}))
    for (int own = 0; own < 1 << ranks; ++own) {
      const auto outcomes = run_group(GetParam(), ranks, [&](Communicator& group) {
        for (const auto op : {ReduceOp::sum, ReduceOp::average, ReduceOp::weighted_sum})
          for (const std::size_t elements : {std::size_t{1}, std::size_t{1031}, ranks == 2 ? std::size_t{1'000'003} : std::size_t{150'001}})
            for (const auto type : {ElementType::fp32, ElementType::fp64, ElementType::bf16}) {
              if (elements > 2000 && type != ElementType::fp32 && op != ReduceOp::sum) continue;
              check(group, {Goal::all_reduce, op, "direct"}, elements, type, (own >> group.rank() & 1) != 0);
            }
      });
      ASSERT_EQ(failure(outcomes), "") << ranks << " ranks, with their own memory where a bit is set: " << own;
    }
}

TEST_P(CollectiveConformance, GivesTheSameBitsOnEveryRankAndEveryTime) {
  const int kRanks = std::min(5, testing::most_ranks());
  constexpr std::size_t kElements = 10'007;
  struct Case {
    std::string algorithm;
    ElementType type;
    ReduceOp op;
  };
  std::vector<Case> cases;
  for (const auto& algorithm : all_reduces()) {
    if (algorithm == "native") continue;  // a library promises less
    for (const auto type : {ElementType::fp32, ElementType::bf16})
      for (const auto op : {ReduceOp::average, ReduceOp::weighted_sum}) cases.push_back({algorithm, type, op});
  }
  std::mutex mutex;
  std::vector<std::vector<std::vector<std::byte>>> all(cases.size());  // by case, of each rank and time
  // Also from memory of another kind: what is copied first is summed in the same order.
  for (int run = 0; run < 3; ++run) {
    const auto outcomes = run_hosted(GetParam(), kRanks, [&](Communicator& group) {
      for (std::size_t number = 0; number < cases.size(); ++number) {
        const auto& [algorithm, type, op] = cases[number];
        Values values(group, kElements, type, run == 1);
        // Of very different sizes, so that another order gives another sum.
        for (std::size_t i = 0; i < kElements; ++i)
          values.set(i, 1.0 / static_cast<double>(i * 7 % 1013 + 1) * (group.rank() % 2 == 0 ? 1.0 : 1e4) + group.rank());
        group.run({Goal::all_reduce, op, algorithm, 1.0 / (group.rank() + 3)}, values.buffer());
        const std::lock_guard lock(mutex);
        all[number].push_back(values.bytes());
      }
    });
    ASSERT_EQ(failure(outcomes), "");
  }
  for (std::size_t number = 0; number < cases.size(); ++number)
    for (const auto& each : all[number]) EXPECT_TRUE(each == all[number][0]) << cases[number].algorithm << " " << name(cases[number].type) << " " << name(cases[number].op);
}

TEST_P(CollectiveConformance, SendsWhatItsScheduleSays) {
  for (const int ranks : testing::possible({2, 3, 5}))
    for (const bool own_memory : {true, false}) {
      const auto outcomes = run_hosted(GetParam(), ranks, [&](Communicator& group) {
        const CollectiveShape shape{ranks, 9001};
        Values values(group, shape.elements, ElementType::fp32, own_memory);
        for (const std::string name : {"ring", "direct", "recursive-doubling", "halving-doubling", "tree", "star"}) {
          const auto schedule = choose_algorithm(Goal::all_reduce, name).algorithm(group.rank(), shape);
          const auto before = group.transport().traffic();
          group.run({Goal::all_reduce, ReduceOp::sum, name}, values.buffer());
          const auto after = group.transport().traffic();
          require(after.sent - before.sent == static_cast<std::int64_t>(4 * elements_sent(schedule)), name);
        }
      });
      ASSERT_EQ(failure(outcomes), "");
    }
}

TEST_P(CollectiveConformance, RunsGroupsBesideEachOther) {
  if (testing::most_ranks() < 6) GTEST_SKIP() << "the launcher started fewer than six ranks";
  const auto outcomes = run_hosted(GetParam(), 6, [&](Communicator& all) {
    const int rank = all.rank();
    const auto pair = all.group(rank % 2 == 0 ? std::vector{0, 2, 4} : std::vector{5, 3, 1});
    const auto half = all.group(rank < 3 ? std::vector{0, 1, 2} : std::vector{3, 4, 5});
    require(pair->size() == 3 && half->rank() == rank % 3, "rank of size");
    std::vector<float> a(5000, 1), b(3000, static_cast<float>(rank)), c(10, 1);
    // Three collectives at once, started in another order on odd ranks: the groups have orders of their own.
    std::vector<Handle> handles;
    const auto first = [&] { handles.push_back(pair->all_reduce(buffer_of(std::span(a)), ReduceOp::sum)); };
    const auto second = [&] { handles.push_back(half->all_reduce(buffer_of(std::span(b)), ReduceOp::sum, "ring")); };
    if (rank % 2 == 0) first();
    second();
    if (rank % 2 != 0) first();
    handles.push_back(all.all_reduce(buffer_of(std::span(c)), ReduceOp::sum));
    for (const auto& handle : handles) handle.wait();
    require(a == std::vector<float>(5000, 3), "the first group's sum");
    require(b == std::vector<float>(3000, rank < 3 ? 3 : 12), "the second group's sum");
    require(c == std::vector<float>(10, 6), "everyone's sum");
  });
  EXPECT_EQ(failure(outcomes), "");
}

TEST_P(CollectiveConformance, SendsAndReceivesBesideCollectives) {
  const auto outcomes = run_hosted(GetParam(), 4, [&](Communicator& group) {
    std::vector<std::int32_t> token(100, group.rank());
    // A token goes round; who is not concerned does not take part.
    for (int from = 0; from < 3; ++from)
      if (group.rank() == from || group.rank() == from + 1)
        group.run({Goal::point_to_point, ReduceOp::sum, "auto", 1, from, from + 1}, buffer_of(std::span(token)));
    require(token == std::vector<std::int32_t>(100, 0), "token");
    group.barrier().wait();
  });
  EXPECT_EQ(failure(outcomes), "");
}

TEST_P(CollectiveConformance, LetsNobodyThroughABarrierEarly) {
  for (const int ranks : testing::possible({1, 2, 3, 6})) {
    testing::Counter entered;
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

INSTANTIATE_TEST_SUITE_P(Builtin, CollectiveConformance, ::testing::ValuesIn(testing::transports_and_staging_under_test()),
                         [](const auto& test) { return testing::test_name(test.param); });

}  // namespace
}  // namespace ddl
