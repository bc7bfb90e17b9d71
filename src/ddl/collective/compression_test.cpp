#include <cmath>

#include <gtest/gtest.h>

#include "ddl/collective/compressed_all_reduce.h"
#include "ddl/collective/testing.h"
#include "ddl/core/random.h"

// What each compression does to numbers, by hand. What all of them owe is in compression_conformance_test.cpp.

namespace ddl {
namespace {

using testing::buffer_of;
using testing::failure;
using testing::require;
using testing::run_group;

template <typename T>
using Ranks = std::vector<std::vector<T>>;

struct Given {
  ReduceOp op = ReduceOp::sum;
  std::vector<double> factors = {};
  BucketLayout layout = {};
};

/// The first result of a group whose rank r has inputs[r], on rank 0.
template <typename T>
std::vector<T> reduce(const std::string& compression, const Ranks<T>& inputs, const Given& given = {}) {
  std::vector<T> result;
  const auto outcomes = run_group("inproc", static_cast<int>(inputs.size()), [&](Communicator& group) {
    const auto rank = static_cast<std::size_t>(group.rank());
    CompressedAllReduce compressed(group, compression);
    auto values = inputs[rank];
    compressed.run(0, buffer_of(std::span(values)), given.op, given.factors.empty() ? 1 : given.factors[rank], given.layout);
    if (rank == 0) result = values;
  });
  EXPECT_EQ(failure(outcomes), "");
  return result;
}

/// Runs `body` with one rank.
void alone(const std::string& compression, const std::function<void(CompressedAllReduce&)>& body) {
  const auto outcomes = run_group("inproc", 1, [&](Communicator& group) {
    CompressedAllReduce compressed(group, compression);
    body(compressed);
  });
  EXPECT_EQ(failure(outcomes), "");
}

template <typename T>
double distance(const std::vector<T>& a, const std::vector<T>& b) {
  double squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i) squares += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
  return std::sqrt(squares);
}

/// a b^T, with a and b drawn from [-1, 1).
std::vector<double> outer(std::size_t rows, std::size_t columns, std::uint64_t seed) {
  Random a(seed, 1), b(seed, 2);
  std::vector<double> right, values;
  for (std::size_t i = 0; i < columns; ++i) right.push_back(b.uniform(-1, 1));
  for (std::size_t row = 0; row < rows; ++row) {
    const double left = a.uniform(-1, 1);
    for (std::size_t i = 0; i < columns; ++i) values.push_back(left * right[i]);
  }
  return values;
}

TEST(CompressionFp16, RoundsToTheNearestHalfAndToEven) {
  const auto result = reduce<float>("fp16", {{1 + 0x1p-11F, 1 + 0x3p-11F, 65519, 65520, 0x1p-25F, 0x1.8p-25F, -2049}});
  EXPECT_EQ(result, (std::vector<float>{1, 1 + 0x1p-9F, 65504, INFINITY, 0, 0x1p-24F, -2048}));
}

TEST(CompressionBf16, RoundsToEightBitsAndKeepsTheRange) {
  const auto result = reduce<float>("bf16", {{1 + 0x1p-8F, 1 + 0x3p-8F, 0x1p-126F, 0x1p127F, -257}});
  EXPECT_EQ(result, (std::vector<float>{1, 1 + 0x1p-6F, 0x1p-126F, 0x1p127F, -256}));
}

TEST(CompressionHalf, SumsInHalves) {
  // 2048 + 1 is no half: the sum rounds to even where each input was exact.
  EXPECT_EQ(reduce<double>("fp16", {{2048}, {1}}), std::vector<double>{2048});
  EXPECT_EQ(reduce<double>("fp16", {{2048}, {3}}), std::vector<double>{2052});
}

TEST(CompressionInt8, ScalesEveryChunkByItsMaximum) {
  // s = 2 in the first chunk of four, 1/2 in the second, 0 in the third.
  const auto result = reduce<float>("int8[chunk=16B,rounding=nearest]", {{254, 3, -3, 1, 63.5F, 0.2F, -0.3F, -63.5F, 0, 0}});
  EXPECT_EQ(result, (std::vector<float>{254, 4, -2, 2, 63.5F, 0, -0.5F, -63.5F, 0, 0}));
}

TEST(CompressionInt8, SumsManyRanksWithoutOverflow) {
  // 5 * 127 is no level of eight bits: the sum has a scale of its own, five times as large.
  EXPECT_EQ(reduce<float>("int8", Ranks<float>(5, std::vector<float>(11, 127))), std::vector<float>(11, 635));
}

TEST(CompressionInt8, IsRightOnAverage) {
  std::vector<float> values(100'001, 0.3F);
  values[0] = 127;
  const auto result = reduce<float>("int8[chunk=1MiB]", {values});
  double sum = 0;
  for (std::size_t i = 1; i < result.size(); ++i) {
    ASSERT_TRUE(result[i] == 0 || result[i] == 1);
    sum += result[i];
  }
  EXPECT_NEAR(sum / 1e5, 0.3, 5 * std::sqrt(0.3 * 0.7 / 1e5));
}

TEST(CompressionInt8, LosesLessThanALevelOrHalfOfOne) {
  Random random(5);
  std::vector<double> values(1000);
  for (double& value : values) value = random.normal();
  for (const auto& [rounding, most] : {std::pair{"stochastic", 1.0}, {"nearest", 0.5 + 1e-9}}) {
    const auto result = reduce<double>(fmt::format("int8[chunk=800B,rounding={}]", rounding), {values});
    for (std::size_t chunk = 0; chunk < 10; ++chunk) {
      double largest = 0;
      for (std::size_t i = 0; i < 100; ++i) largest = std::max(largest, std::abs(values[chunk * 100 + i]));
      for (std::size_t i = 0; i < 100; ++i) EXPECT_LE(std::abs(result[chunk * 100 + i] - values[chunk * 100 + i]), most * largest / 127);
    }
  }
}

TEST(CompressionInt8, TakesNumbersAtTheEndsOfTheRange) {
  EXPECT_EQ(reduce<float>("int8[rounding=nearest]", {{1e-45F, -1e-45F, 0}}), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(reduce<double>("int8[rounding=nearest]", {{0x7fp1000, -0x7fp1000, 0x1p1000}}), (std::vector<double>{0x7fp1000, -0x7fp1000, 0x1p1000}));
}

TEST(CompressionTopK, SendsTheLargestAndOfEqualOnesTheFirst) {
  EXPECT_EQ(reduce<float>("top-k[ratio=0.34]", {{1, -5, 3, 0, 4, 2}}), (std::vector<float>{0, -5, 0, 0, 4, 0}));
  EXPECT_EQ(reduce<float>("top-k[ratio=0.5]", {{2, -2, 2, 2, -2, 2}}), (std::vector<float>{2, -2, 2, 0, 0, 0}));
  EXPECT_EQ(reduce<float>("top-k[ratio=1]", {{2, -1, 0}}), (std::vector<float>{2, -1, 0}));
}

TEST(CompressionTopK, AddsUpThePlacesOfAllRanks) {
  EXPECT_EQ(reduce<double>("top-k[ratio=0.5]", {{9, 0, 1, 8}, {7, 1, 6, 0}, {0, 5, 0, 4}}), (std::vector<double>{16, 5, 6, 12}));
}

TEST(CompressionTopK, FindsTheKthLargestAmongManySizes) {
  Random random(3);
  std::vector<double> values(5003);
  for (double& value : values) value = random.normal() * std::ldexp(1.0, static_cast<int>(random.below(200)) - 100);
  auto sizes = values;
  for (double& size : sizes) size = std::abs(size);
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  const auto result = reduce<double>("top-k[ratio=0.1]", {values});
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(result[i], std::abs(values[i]) >= sizes[499] ? values[i] : 0);
}

TEST(CompressionRandomK, SendsTheSamePlacesOfAllRanksAndOthersEachTime) {
  const auto outcomes = run_group("inproc", 3, [](Communicator& group) {
    CompressedAllReduce compressed(group, "random-k[ratio=0.1,feedback=off]"), other(group, "random-k[ratio=0.1,seed=2,feedback=off]");
    const auto places = [&](CompressedAllReduce& by) {
      std::vector<float> values(1000, static_cast<float>(1 + group.rank()));
      by.run(0, buffer_of(std::span(values)), ReduceOp::sum);
      std::vector<std::size_t> at;
      for (std::size_t i = 0; i < values.size(); ++i) {
        require(values[i] == 0 || values[i] == 6, "the sum of all ranks or nothing");
        if (values[i] != 0) at.push_back(i);
      }
      return at;
    };
    const auto first = places(compressed), second = places(compressed), seeded = places(other);
    require(first.size() == 100 && second.size() == 100, "a tenth of them");
    require(first != second && first != seeded, "drawn anew");
  });
  EXPECT_EQ(failure(outcomes), "");
}

TEST(CompressionRandomK, DrawsEveryPlaceEquallyOften) {
  alone("random-k[ratio=0.25,feedback=off]", [](CompressedAllReduce& compressed) {
    std::vector<int> drawn(20);
    for (int call = 0; call < 4000; ++call) {
      std::vector<float> values(20, 1);
      compressed.run(0, buffer_of(std::span(values)), ReduceOp::sum);
      for (std::size_t i = 0; i < values.size(); ++i) drawn[i] += values[i] != 0 ? 1 : 0;
    }
    // 1000 each, with a standard deviation of 27.
    for (const int times : drawn) require(std::abs(times - 1000) < 5 * 28, fmt::format("drawn {} times", times));
  });
}

TEST(CompressionPowerSgd, IsExactWhereTheSumHasItsRank) {
  constexpr std::size_t kRows = 23, kColumns = 17;
  const auto a = outer(kRows, kColumns, 1), b = outer(kRows, kColumns, 2);
  Ranks<double> inputs(3, std::vector<double>(kRows * kColumns + 5, 0.25));
  auto sum = std::vector<double>(kRows * kColumns + 5, 0.75);
  for (std::size_t i = 0; i < a.size(); ++i) {
    // Each rank's own matrix has rank 3; what is beyond rank 2 cancels in the sum.
    const double beyond = std::sin(static_cast<double>(i * i));
    inputs[0][i] = a[i] + beyond;
    inputs[1][i] = b[i] - beyond;
    inputs[2][i] = a[i] - b[i];
    sum[i] = 2 * a[i];
  }
  const auto result = reduce("power-sgd[rank=2]", inputs, {ReduceOp::sum, {}, {{{kRows, kColumns}, {5, 1}}}});
  EXPECT_LT(distance(result, sum), 1e-12);
  for (std::size_t i = a.size(); i < sum.size(); ++i) EXPECT_EQ(result[i], 0.75);  // one dimension: as it is
}

TEST(CompressionPowerSgd, FindsTheLargestDirectionsCallAfterCall) {
  // Singular values 16, 8, 4, 2, 1, … on the diagonal: the best of rank 2 leaves sqrt(16 + 4 + 1 + …).
  alone("power-sgd[rank=2,feedback=off]", [](CompressedAllReduce& compressed) {
    std::vector<double> matrix(400), values;
    double best = 0;
    for (std::size_t i = 0; i < 20; ++i) {
      matrix[21 * i] = std::ldexp(16.0, -static_cast<int>(i));
      if (i >= 2) best += matrix[21 * i] * matrix[21 * i];
    }
    CompressionReport first, last;
    for (int call = 0; call < 20; ++call) {
      values = matrix;
      last = compressed.run(0, buffer_of(std::span(values)), ReduceOp::sum, 1, {{{20, 20}}});
      if (call == 0) first = last;
    }
    require(first.lost > 1.01 * std::sqrt(best), "one step does not find them");
    require(std::abs(last.lost - std::sqrt(best)) < 1e-9, fmt::format("{} lost, at best {}", last.lost, std::sqrt(best)));
  });
}

TEST(CompressionPowerSgd, ShapesAMatrixForEveryTensor) {
  const auto outcomes = run_group("inproc", 2, [](Communicator& group) {
    CompressedAllReduce compressed(group, "power-sgd[rank=3]");
    // r*(m+n) of each matrix, and what is not worth it, or has one dimension, as it is.
    const BucketLayout layout{{{64, 27}, {64, 1}, {4, 5}, {10, 64}, {10, 1}}};
    constexpr std::size_t kElements = 64 * 27 + 64 + 20 + 640 + 10;
    const std::size_t first = 3 * 64 + 64 + 20 + 3 * 10 + 10, second = 3 * 27 + 3 * 64;
    require(compressed.bytes(kElements, ElementType::fp32, layout).value ==
                group.bytes_sent({Goal::all_reduce}, first, ElementType::fp32) + group.bytes_sent({Goal::all_reduce}, second, ElementType::fp32),
            "bytes");
    // A convolution of rank 1, a full matrix of rank 1 behind it: neither disturbs the other.
    const auto a = outer(64, 27, 5), b = outer(10, 64, 6);
    std::vector<float> values(kElements, 3);
    std::copy(a.begin(), a.end(), values.begin());
    std::copy(b.begin(), b.end(), values.begin() + 64 * 27 + 84);
    auto twice = values;
    for (float& value : twice) value *= 2;
    const auto report = compressed.run(0, buffer_of(std::span(values)), ReduceOp::sum, 1, layout);
    require(distance(values, twice) < 1e-4, "sum");
    require(report.sent == compressed.bytes(kElements, ElementType::fp32, layout), "sent");
  });
  EXPECT_EQ(failure(outcomes), "");
}

TEST(Compression, WeighsBeforeItCompresses) {
  // 4e5/8 = 1562.5 * 32 fits into a half, rounded to 1562 * 32; 4e5 does not.
  EXPECT_EQ(reduce<float>("fp16", {{4e5F}, {64}}, {ReduceOp::weighted_sum, {0.125, 0.5}}), std::vector<float>{50016});
  EXPECT_EQ(reduce<float>("fp16", {{65504}, {65504}}, {ReduceOp::average}), std::vector<float>{65504});
}

TEST(Compression, KeepsWhatIsLeftInWeightedUnits) {
  alone("top-k[ratio=0.5]", [](CompressedAllReduce& compressed) {
    std::vector<float> values{4, 2};
    auto report = compressed.run(0, buffer_of(std::span(values)), ReduceOp::weighted_sum, 0.5);  // x = 2, 1
    require(values == std::vector<float>{2, 0}, "the larger one");
    require(report.lost == 1 && report.input == std::sqrt(5.0) && report.relative_error() == 1 / std::sqrt(5.0), "what was lost");
    require(compressed.residual(0) == std::vector<double>{0, 1}, "what is left");
    values = {0, 8};
    report = compressed.run(0, buffer_of(std::span(values)), ReduceOp::weighted_sum, 0.25);  // x = 0, 2 + 1
    require(values == std::vector<float>{0, 3}, "with what was left");
    require(report.relative_error() == 0 && compressed.residual(0) == std::vector<double>{0, 0}, "nothing is left");
    require(std::abs(compressed.total().input - std::sqrt(14.0)) < 1e-12 && compressed.total().lost == 1, "total");
    // Buckets are strangers to each other; what is forgotten is gone.
    values = {1, 3};
    compressed.run(1, buffer_of(std::span(values)), ReduceOp::sum);
    require(values == std::vector<float>{0, 3} && compressed.residual(0)[1] == 0 && compressed.residual(1)[0] == 1, "another bucket");
    compressed.forget();
    require(compressed.residual(1).empty(), "forgotten");
  });
}

TEST(Compression, LeavesExactElementsAlone) {
  const auto outcomes = run_group("inproc", 3, [](Communicator& group) {
    for (const char* compression : {"none", "fp16", "int8", "top-k[ratio=0.1]", "random-k[ratio=0.1]", "power-sgd"}) {
      CompressedAllReduce compressed(group, compression);
      std::vector<double> values(101, 1000);
      values[99] = 1e-9 * group.rank();
      values[100] = 1.0 / 3;
      const BucketLayout layout{{}, 2};
      const auto report = compressed.run(0, buffer_of(std::span(values)), ReduceOp::sum, 1, layout);
      require(values[99] == 1e-9 + 2e-9 && values[100] == 1.0 / 3 + 1.0 / 3 + 1.0 / 3, compression);
      require(report.sent == compressed.bytes(101, ElementType::fp64, layout), "bytes");
      // Its layout stays what it was.
      values.assign(101, 1);
      values[100] = 1e-9;
      compressed.run(0, buffer_of(std::span(values)), ReduceOp::sum);
      require(values[99] == 3 && values[100] == 1e-9 + 1e-9 + 1e-9, "second call");
      // A bucket of nothing else.
      std::vector<float> control{2};
      compressed.run(1, buffer_of(std::span(control)), ReduceOp::sum, 1, {{}, 1});
      require(control[0] == 6, "control");
    }
  });
  EXPECT_EQ(failure(outcomes), "");
}

TEST(Compression, CostsTheBytesOfItsFormula) {
  // n = 10,007 fp32, P = 4, by a ring: 2 (P-1)/P of what is all-reduced, but for the rounding of its parts.
  constexpr std::size_t n = 10'007;
  const auto outcomes = run_group("inproc", 4, [](Communicator& group) {
    const auto bytes = [&](const char* compression) {
      return CompressedAllReduce(group, compression, {"ring"}).bytes(n, ElementType::fp32).value;
    };
    const auto ring = [&](double all_reduced, std::int64_t got) { require(std::abs(2 * 0.75 * all_reduced - static_cast<double>(got)) <= 24, fmt::format("{}", got)); };
    ring(4.0 * n, bytes("none"));
    ring(2.0 * n, bytes("fp16"));
    ring(2.0 * n, bytes("bf16"));
    ring(4 * 100, bytes("random-k"));
    ring(4.0 * 4 * (100 + 101), bytes("power-sgd[rank=4]"));
    require(bytes("top-k") == 3 * 100 * 8, "top-k: (P-1) k (4 + 4)");
    require(bytes("int8") == 2 * 3 * (2504 + 4 * 3), "int8: 2 (P-1) (ceil(n/P) to words, and three scales)");
  });
  EXPECT_EQ(failure(outcomes), "");
}

/// f(x) = sum over ranks of w_r/2 * sum over i of d_i (x_i - b_ri)^2, whose minimum is where x = sum of w_r b_r: how far
/// from it, of |x*|, gradient descent ends under this compression. Ranks want different things, so that their gradients do
/// not vanish there, only the sum does.
double descend(const std::string& compression, double step, int steps) {
  constexpr std::size_t kElements = 48;
  constexpr int kRanks = 3;
  const double weights[kRanks] = {0.5, 0.3, 0.2};
  double left = 0;
  const auto outcomes = run_group("inproc", kRanks, [&](Communicator& group) {
    CompressedAllReduce compressed(group, compression);
    std::vector<double> x(kElements), gradient(kElements), best(kElements), mine(kElements);
    for (int rank = 0; rank < kRanks; ++rank) {
      Random random(static_cast<std::uint64_t>(rank) + 100);
      for (std::size_t i = 0; i < kElements; ++i) {
        const double b = random.normal();
        best[i] += weights[rank] * b;
        if (rank == group.rank()) mine[i] = b;
      }
    }
    for (int k = 0; k < steps; ++k) {
      for (std::size_t i = 0; i < kElements; ++i) gradient[i] = (1 + static_cast<double>(i % 4) / 2) * (x[i] - mine[i]);
      compressed.run(0, buffer_of(std::span(gradient)), ReduceOp::weighted_sum, weights[group.rank()], {{{8, 6}}});
      for (std::size_t i = 0; i < kElements; ++i) x[i] -= step * gradient[i];
    }
    if (group.rank() == 0) left = distance(x, best) / distance(best, std::vector<double>(kElements));
  });
  EXPECT_EQ(failure(outcomes), "");
  return left;
}

TEST(CompressionConvergence, ReachesTheMinimumOfAQuadratic) {
  EXPECT_LT(descend("none", 0.1, 400), 1e-12);
  // Limited by the rounding of gradients that do not vanish.
  EXPECT_LT(descend("fp16", 0.1, 400), 1e-3);
  EXPECT_LT(descend("bf16", 0.1, 400), 5e-3);
  EXPECT_LT(descend("int8", 0.01, 1200), 5e-3);
  // Functions of the sum alone: as it vanishes, what is left untransmitted does.
  EXPECT_LT(descend("random-k[ratio=0.1]", 0.01, 1200), 1e-3);
  EXPECT_LT(descend("power-sgd[rank=1]", 0.01, 1200), 1e-3);
}

TEST(CompressionConvergence, ComesCloserWithTopKTheSmallerTheStep) {
  // Every rank keeps a part of its own gradient, however close the minimum is.
  const double far = descend("top-k[ratio=0.1]", 0.01, 1200);
  EXPECT_LT(far, 0.05);
  EXPECT_LT(descend("top-k[ratio=0.1]", 0.002, 6000), 0.3 * far);
}

TEST(CompressionConvergence, NeedsErrorFeedback) {
  // The first element pulls ranks apart for ever; what they agree on is never the largest.
  for (const bool feedback : {true, false}) {
    const auto outcomes = run_group("inproc", 2, [&](Communicator& group) {
      CompressedAllReduce compressed(group, feedback ? "top-k[ratio=0.5]" : "top-k[ratio=0.5,feedback=off]");
      double x[2] = {0, 0};
      for (int k = 0; k < 500; ++k) {
        std::vector<double> gradient{x[0] + (group.rank() == 0 ? 10 : -10), x[1] - 1};
        compressed.run(0, buffer_of(std::span(gradient)), ReduceOp::average);
        for (int i = 0; i < 2; ++i) x[i] -= 0.05 * gradient[static_cast<std::size_t>(i)];
      }
      require(feedback ? std::abs(x[1] - 1) < 0.5 : x[1] == 0, fmt::format("feedback {}: {}", feedback, x[1]));
    });
    EXPECT_EQ(failure(outcomes), "");
  }
}

std::string told(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return fmt::format("{}: {}", name(error.code()), error.what());
  }
  return "nothing";
}

TEST(Compression, SaysWhatIsWrongWithItsWords) {
  const auto choose = [](const char* text) { return told([&] { choose_compression(text); }); };
  EXPECT_EQ(choose("top-kk"), "not_found: [compression] unknown compression 'top-kk' (did you mean 'top-k'?); expected one of: none fp16 bf16 int8 top-k random-k power-sgd");
  EXPECT_EQ(choose("int8[chunck=4KiB]"), "invalid_argument: [int8] unknown option 'chunck' (did you mean 'chunk'?); expected one of: chunk rounding seed feedback");
  EXPECT_EQ(choose("fp16[ratio=1]"), "invalid_argument: [fp16] unknown option 'ratio'; expected none");
  EXPECT_EQ(choose("top-k[ratio=0]"), "invalid_argument: [compression] option 'ratio' of top-k; got '0', expected a number above 0, at most 1");
  EXPECT_EQ(choose("random-k[ratio=1%]"), "invalid_argument: [compression] option 'ratio' of random-k; got '1%', expected a number above 0, at most 1");
  EXPECT_EQ(choose("random-k[seed=-1]"), "invalid_argument: [compression] option 'seed' of random-k; got '-1', expected a whole number from 0 on");
  EXPECT_EQ(choose("power-sgd[rank=0]"), "invalid_argument: [compression] option 'rank' of power-sgd; got '0', expected a whole number from 1 on");
  EXPECT_EQ(choose("int8[chunk=4]"), "invalid_argument: [compression] option 'chunk' of int8; got '4', expected bytes, as 4KiB, at least 8B");
  EXPECT_EQ(choose("int8[rounding=stocastic]"), "invalid_argument: [compression] option 'rounding' of int8; got 'stocastic', expected one of: stochastic nearest (did you mean 'stochastic'?)");
  EXPECT_EQ(choose("top-k[feedback=maybe]"), "invalid_argument: [compression] option 'feedback' of top-k; got 'maybe', expected one of: on off");
  for (const auto& name : builtin_compressions().names()) EXPECT_EQ(choose(name.c_str()), "nothing");
}

TEST(Compression, RefusesWhatItCannotDo) {
  alone("power-sgd", [](CompressedAllReduce& compressed) {
    std::vector<float> values(6, 1);
    std::vector<double> wide(6, 1);
    std::vector<std::int32_t> whole(6, 1);
    const auto run = [&](auto& of, ReduceOp op, const BucketLayout& layout = {}, std::uint64_t bucket = 0) {
      return told([&] { compressed.run(bucket, buffer_of(std::span(of)), op, 1, layout); });
    };
    const auto expect = [](const std::string& got, const std::string& expected) { require(got == expected, got); };
    expect(run(values, ReduceOp::max), "invalid_argument: [compression] power-sgd: got max, expected sum, average or weighted_sum");
    expect(run(whole, ReduceOp::sum), "invalid_argument: [compression] power-sgd: got elements of int32, expected fp32 or fp64");
    expect(run(values, ReduceOp::sum, {{{2, 2}}}), "invalid_argument: [compression] power-sgd: tensors do not fill their buffer; got 4 elements, expected 6");
    expect(run(values, ReduceOp::sum, {{}, 7}), "invalid_argument: [compression] got 7 exact elements, expected at most the bucket's 6");
    expect(run(values, ReduceOp::sum), "nothing");
    expect(run(wide, ReduceOp::sum), "invalid_argument: [compression] bucket 0: got 6 fp64, expected 6 fp32 as before");
    values.resize(5);
    expect(run(values, ReduceOp::sum), "invalid_argument: [compression] bucket 0: got 5 fp32, expected 6 fp32 as before");
    expect(run(wide, ReduceOp::sum, {}, 1), "nothing");
  });
}

TEST(Compression, SaysOnEveryRankThatRanksChoseDifferently) {
  const auto outcomes = run_group("inproc", 3, [](Communicator& group) {
    CompressedAllReduce(group, group.rank() == 1 ? "random-k[seed=2]" : "random-k[seed=1]");
  });
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    ASSERT_TRUE(outcomes[rank]);
    EXPECT_EQ(outcomes[rank]->code(), Code::invalid_argument);
    EXPECT_EQ(std::string(outcomes[rank]->what()),
              fmt::format("[compression] ranks must choose the same compression and seed; got random-k[seed={0}] with seed {0} on rank {1}, expected that "
                          "of rank {2} too", rank == 1 ? 2 : 1, rank, rank == 1 ? 0 : 1));
  }
}

TEST(Compression, RunsInTheBackgroundInTheOrderOfItsCalls) {
  const auto outcomes = run_group("inproc", 3, [](Communicator& world) {
    // Beside it, on the same ranks: the plain collectives of someone else.
    const auto group = world.group({0, 1, 2});
    CompressedAllReduce compressed(*group, "top-k[ratio=0.5]");
    std::vector<std::vector<float>> buckets;
    std::vector<Handle> handles;
    std::vector<CompressionReport> reports(20);
    std::vector<float> other(1000, 1);
    for (std::size_t i = 0; i < reports.size(); ++i) buckets.emplace_back(2 * i + 2, static_cast<float>(i));
    for (std::size_t i = 0; i < reports.size(); ++i) {
      handles.push_back(compressed.start(i, buffer_of(std::span(buckets[i])), ReduceOp::sum, 1, {}, &reports[i], i % 3 == 0 ? Start::at_wait : Start::now));
      world.run({Goal::all_reduce, ReduceOp::average}, buffer_of(std::span(other)));
    }
    handles.back().wait();
    for (std::size_t i = 0; i < reports.size(); ++i) {
      require(handles[i].done(), "order");
      std::vector<float> expected(2 * i + 2);
      std::fill_n(expected.begin(), i + 1, 3 * static_cast<float>(i));
      require(buckets[i] == expected, "the first half of equal ones");
      require(reports[i].sent == compressed.bytes(2 * i + 2, ElementType::fp32), "bytes");
    }
    require(other == std::vector<float>(1000, 1), "average");
  });
  EXPECT_EQ(failure(outcomes), "");
}

TEST(Compression, EndsWithWhatIsPending) {
  const auto outcomes = run_group("inproc", 2, [](Communicator& group) {
    Handle handle;
    {
      CompressedAllReduce compressed(group, "fp16");
      std::vector<float> values(8, 1);
      if (group.rank() == 1) return;
      handle = compressed.start(0, buffer_of(std::span(values)), ReduceOp::sum);
    }
    const auto end = told([&] { handle.wait(); });
    require(end.starts_with("interrupted") || end.starts_with("peer_lost"), end);
  });
  EXPECT_EQ(failure(outcomes), "");
}

}  // namespace
}  // namespace ddl
