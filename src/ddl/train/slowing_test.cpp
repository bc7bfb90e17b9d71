#include "ddl/train/slowing.h"

#include <algorithm>
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
  for (const double factor : {1.0, 2.0, 4.0}) {
    Slowing slowing(factor);
    // By turns: a machine that others share changes its pace.
    std::vector<double> ratios;
    for (int i = 0; i < 7; ++i) {
      const double plain = least([&] { found = work(300); });
      const double slowed = least([&] {
        const Slowing::While now(&slowing);
        found = work(300);
      });
      EXPECT_EQ(found, expected);
      ratios.push_back(slowed / plain);
    }
    std::nth_element(ratios.begin(), ratios.begin() + 3, ratios.end());
    EXPECT_NEAR(ratios[3], factor, 0.25 * factor) << factor;
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
  // Far from the factor; roots on the other side of one core may take their part.
  EXPECT_LT(beside / plain, 3);
}

TEST(Slowing, OutsideNothingIsSlow) {
  Slowing slowing(4);
  const double plain = least([] { work(300); });
  { const Slowing::While now(&slowing); work(10); }
  EXPECT_LT(least([] { work(300); }) / plain, 2);
}

}  // namespace
}  // namespace ddl
