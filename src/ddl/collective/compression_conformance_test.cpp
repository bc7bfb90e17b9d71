#include <cmath>
#include <mutex>

#include <gtest/gtest.h>

#include "ddl/collective/compressed_all_reduce.h"
#include "ddl/collective/testing.h"
#include "ddl/core/random.h"

// Every compression in every size of group and buffer. A new one is tested by being registered.

namespace ddl {
namespace {

using testing::buffer_of;
using testing::failure;
using testing::require;
using testing::run_group;

constexpr int kCalls = 3;

/// What the compressions are asked for, beside their defaults.
std::vector<std::string> compressions() {
  auto all = builtin_compressions().names();
  for (const char* form : {"int8[chunk=64B,rounding=nearest,feedback=on]", "top-k[ratio=0.3]", "random-k[ratio=1]", "power-sgd[rank=4,feedback=off]"})
    all.emplace_back(form);
  return all;
}

/// As gradients are: of very different sizes, most of them small, so that another order of summation gives other bits.
template <typename T>
std::vector<T> gradient(std::size_t elements, int rank, int call) {
  Random random(static_cast<std::uint64_t>(rank) + 10, static_cast<std::uint64_t>(call));
  std::vector<T> values(elements);
  for (T& value : values) {
    const double x = random.uniform(-1, 1);
    value = static_cast<T>(x * x * x * x * x);
  }
  return values;
}

template <typename T>
double norm(const std::vector<T>& values) {
  double squares = 0;
  for (const T value : values) squares += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(squares);
}

/// The bits that every call left on one rank.
struct Trail {
  std::vector<std::byte> bits;
  template <typename T>
  void add(const std::vector<T>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    bits.insert(bits.end(), bytes.begin(), bytes.end());
  }
};

/// One rank's part of kCalls all-reduces. What is lost must explain how far the first result is from the sum.
template <typename T>
void check(Communicator& group, const std::string& compression, const std::string& algorithm, std::size_t elements, Trail& trail) {
  CompressedAllReduce compressed(group, compression, {algorithm});
  const auto what = fmt::format("{} by {}, {} {} on {} ranks", compression, algorithm, elements, name(testing::element_type<T>()), group.size());
  std::vector<double> sum(elements), lost{0};
  double rounding = 0;
  for (int rank = 0; rank < group.size(); ++rank) {
    const auto theirs = gradient<T>(elements, rank, 0);
    for (std::size_t i = 0; i < elements; ++i) sum[i] += static_cast<double>(theirs[i]);
    rounding += norm(theirs);
  }
  for (int call = 0; call < kCalls; ++call) {
    auto values = gradient<T>(elements, group.rank(), call);
    const auto before = group.transport().traffic().sent;
    const auto report = compressed.run(7, buffer_of(std::span(values)), ReduceOp::sum);
    const auto sent = group.transport().traffic().sent - before;
    require(report.sent.value == sent, what + ": bytes reported");
    const auto priced = compressed.bytes(elements, testing::element_type<T>());
    require(priced.value == sent, fmt::format("{}: {} bytes priced, {} sent", what, priced.value, sent));
    require(report.relative_error() >= 0 && report.relative_error() <= 1 + 1e-6, what + ": relative error");
    trail.add(values);
    if (call != 0) continue;
    lost[0] = report.lost;
    group.run({Goal::all_reduce}, buffer_of(std::span(lost)));
    for (std::size_t i = 0; i < elements; ++i) sum[i] -= static_cast<double>(values[i]);
    // Halves are also summed in halves: P roundings of at most 2^-8 of what is summed.
    const double slack = compression == "bf16" || compression == "fp16" ? 0x1p-8 * group.size() : 1e-5;
    require(norm(sum) <= lost[0] + slack * rounding, fmt::format("{}: {} off, {} lost", what, norm(sum), lost[0]));
  }
}

void check_everything(const std::string& transport, int ranks, const std::string& compression, const std::vector<std::string>& algorithms,
                      const std::vector<std::size_t>& sizes) {
  std::vector<Trail> trails;
  for (int repeat = 0; repeat < 2; ++repeat) {
    std::mutex mutex;
    const auto outcomes = run_group(transport, ranks, [&](Communicator& group) {
      Trail trail;
      for (const auto& algorithm : algorithms)
        for (const std::size_t elements : sizes) {
          check<float>(group, compression, algorithm, elements, trail);
          check<double>(group, compression, algorithm, elements, trail);
        }
      const std::lock_guard lock(mutex);
      trails.push_back(std::move(trail));
    });
    ASSERT_EQ(failure(outcomes), "");
  }
  for (const auto& trail : trails) EXPECT_TRUE(trail.bits == trails[0].bits) << compression << ": other bits on another rank or time";
}

class CompressionConformance : public ::testing::TestWithParam<std::string> {};

TEST_P(CompressionConformance, GivesTheSameBitsEverywhereForTheBytesThatItSays) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    const auto p = static_cast<std::size_t>(ranks);
    check_everything("inproc", ranks, GetParam(), {"auto", "ring", "halving-doubling"}, {0, 1, p - 1, p, p + 1, 997, 20'011});
  }
}

TEST_P(CompressionConformance, WorksOverSharedMemoryAndSockets) {
  check_everything("shm", 3, GetParam(), {"auto"}, {1, 997, 100'003});
  check_everything("tcp", 2, GetParam(), {"auto"}, {1, 997, 100'003});
}

TEST_P(CompressionConformance, WeightsLikeThePlainSum) {
  // Powers of two scale without rounding: weights before the call and by the call must have the same bits.
  for (const int ranks : {1, 2, 3, 4}) {
    const auto outcomes = run_group("inproc", ranks, [&](Communicator& group) {
      CompressedAllReduce by_call(group, GetParam()), before(group, GetParam());
      for (int call = 0; call < kCalls; ++call) {
        const double factor = std::ldexp(1.0, group.rank() - call);
        auto values = gradient<float>(997, group.rank(), call);
        auto scaled = values;
        for (float& value : scaled) value *= static_cast<float>(factor);
        by_call.run(0, buffer_of(std::span(values)), ReduceOp::weighted_sum, factor);
        before.run(0, buffer_of(std::span(scaled)), ReduceOp::sum);
        require(values == scaled, "weighted sum");
        auto average = gradient<float>(997, group.rank(), call);
        auto divided = average;
        for (float& value : divided) value /= static_cast<float>(ranks);
        by_call.run(1, buffer_of(std::span(average)), ReduceOp::average);
        before.run(1, buffer_of(std::span(divided)), ReduceOp::sum);
        // Uncompressed, an average divides at the end.
        for (std::size_t i = 0; i < average.size(); ++i)
          require(GetParam() == "none" ? std::abs(average[i] - divided[i]) <= 1e-6F : average[i] == divided[i], "average");
      }
    });
    ASSERT_EQ(failure(outcomes), "") << ranks << " ranks";
  }
}

TEST_P(CompressionConformance, PassesOnWhatIsNoNumber) {
  for (const int ranks : {1, 2, 3, 5})
    for (const float poison : {NAN, INFINITY, -INFINITY})
      for (const std::size_t elements : {std::size_t{1}, std::size_t{1000}}) {
        const auto outcomes = run_group("inproc", ranks, [&](Communicator& group) {
          CompressedAllReduce compressed(group, GetParam());
          auto values = gradient<float>(elements, group.rank(), 0);
          compressed.run(0, buffer_of(std::span(values)), ReduceOp::sum);
          const auto residual = compressed.residual(0);
          values = gradient<float>(elements, group.rank(), 1);
          if (group.rank() == ranks - 1) values[elements / 3] = poison;
          const auto report = compressed.run(0, buffer_of(std::span(values)), ReduceOp::sum);
          bool passed = false;
          for (const float value : values) passed |= !std::isfinite(value);
          require(passed, fmt::format("{} was swallowed", poison));
          require(report.sent == compressed.bytes(elements, ElementType::fp32), "bytes");
          require(compressed.residual(0) == residual, "what was kept before is kept");
          // And forgets it.
          for (int call = 2; call < 4; ++call) {
            values = gradient<float>(elements, group.rank(), call);
            compressed.run(0, buffer_of(std::span(values)), ReduceOp::sum);
            for (const float value : values) require(std::isfinite(value), "finite again");
          }
        });
        ASSERT_EQ(failure(outcomes), "") << ranks << " ranks, " << elements << " elements, " << poison;
      }
}

TEST_P(CompressionConformance, DeliversInTheEndWhatItKept) {
  // sum of what was delivered + what ranks still keep = sum of the inputs, where there is error feedback.
  const auto outcomes = run_group("inproc", 3, [&](Communicator& group) {
    CompressedAllReduce compressed(group, GetParam());
    constexpr std::size_t kElements = 499;
    std::vector<double> open(kElements);
    double inputs = 0;
    for (int call = 0; call < 30; ++call) {
      auto values = gradient<double>(kElements, group.rank(), call);
      for (std::size_t i = 0; i < kElements; ++i) open[i] += values[i];
      inputs += norm(values);
      const auto report = compressed.run(3, buffer_of(std::span(values)), ReduceOp::sum);
      // Everyone got the whole of what was delivered: a third of it counts here.
      for (std::size_t i = 0; i < kElements; ++i) open[i] -= values[i] / 3;
      if (!compressed.residual(3).empty()) require(std::abs(norm(compressed.residual(3)) - report.lost) <= 1e-12 * inputs, "norm of the residual");
    }
    const auto residual = compressed.residual(3);
    if (residual.empty()) return;
    for (std::size_t i = 0; i < kElements; ++i) open[i] -= residual[i];
    group.run({Goal::all_reduce}, buffer_of(std::span(open)));
    require(norm(open) <= 1e-12 * inputs, fmt::format("{} of {} came from nowhere", norm(open), inputs));
  });
  EXPECT_EQ(failure(outcomes), "");
}

INSTANTIATE_TEST_SUITE_P(Builtin, CompressionConformance, ::testing::ValuesIn(compressions()), [](const auto& test) {
  std::string word;
  for (const char c : test.param) word += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return word;
});

}  // namespace
}  // namespace ddl
