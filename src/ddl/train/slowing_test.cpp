#include "ddl/train/slowing.h"

#include <cmath>
#include <gtest/gtest.h>
#include <thread>
#include <vector>

#include "ddl/train/core_clock.h"

namespace ddl {
namespace {

/// Some work of 10 ms or so, which the compiler cannot leave out.
double work(int rounds) {
  double sum = 0;
  for (int i = 1; i < rounds * 10'000; ++i) sum += std::sqrt(static_cast<double>(i));
  return sum;
}

/// Core time that `body` takes, the least of some tries.
template <typename Body>
double least(const Body& body) {
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto begin = core_time();
    body();
    best = std::min(best, seconds(core_time() - begin));
  }
  return best;
}

TEST(Slowing, TakesSoManyTimesAsLongAndComputesTheSame) {
  const double expected = work(300);
  double found = 0;
  const double plain = least([&] { found = work(300); });
  for (const double factor : {1.0, 2.0, 4.0}) {
    Slowing slowing(factor);
    const double slowed = least([&] {
      const Slowing::While now(&slowing);
      found = work(300);
    });
    EXPECT_EQ(found, expected);
    EXPECT_NEAR(slowed / plain, factor, 0.15 * factor) << factor;
  }
}

TEST(Slowing, IsSpreadOverTheWork) {
  Slowing slowing(3);
  std::vector<Nanoseconds> at;
  {
    const Slowing::While now(&slowing);
    for (int i = 0; i < 10; ++i) {
      work(300);
      at.push_back(core_time());
    }
  }
  const auto end = core_time();
  // Of what comes to 3 parts a piece, not more than a piece's is left for the end.
  EXPECT_LT(end - at.back(), (at.back() - at.front()) / 9);
  // Halfway is halfway.
  EXPECT_NEAR(seconds(at[4] - at[0]) / seconds(at[8] - at[0]), 0.5, 0.2);
}

TEST(Slowing, IsOfItsThreadAlone) {
  double plain = 0, beside = 0;
  const auto elsewhere = [](double& out) { out = least([] { work(300); }); };
  std::thread(elsewhere, std::ref(plain)).join();
  Slowing slowing(5);
  const Slowing::While now(&slowing);
  std::thread other(elsewhere, std::ref(beside));
  work(1000);
  other.join();
  EXPECT_NEAR(beside / plain, 1, 0.3);
}

TEST(Slowing, OutsideNothingIsSlow) {
  Slowing slowing(4);
  const double plain = least([] { work(300); });
  { const Slowing::While now(&slowing); work(10); }
  EXPECT_NEAR(least([] { work(300); }) / plain, 1, 0.3);
}

}  // namespace
}  // namespace ddl
