#include "ddl/train/loss_scale.h"

#include <cmath>

#include <gtest/gtest.h>

#include "ddl/core/random.h"

namespace ddl {
namespace {

/// The rule as it is published, in plain numbers.
struct Published {
  float value = 65536;
  int good = 0;
  void observe(bool finite, int interval) {
    if (!finite) {
      value /= 2;
      good = 0;
    } else if (++good == interval) {
      if (std::isfinite(value * 2)) value *= 2;
      good = 0;
    }
  }
};

// Whatever happens, in any order; where nothing ever fails it grows until it would overflow.
TEST(LossScale, FollowsThePublishedRule) {
  Random random(7);
  for (const double one_in : {3.0, 10.0, 1e9}) {
    LossScale scale({.initial = 65536, .growth = 2, .backoff = 0.5, .interval = 5});
    Published expected;
    std::int64_t skipped = 0;
    for (int step = 0; step < 2000; ++step) {
      const bool finite = random.uniform() >= 1 / one_in;
      expected.observe(finite, 5);
      scale.observe(finite);
      skipped += finite ? 0 : 1;
      ASSERT_EQ(scale.value(), static_cast<double>(expected.value)) << "step " << step << ", one in " << one_in;
    }
    EXPECT_EQ(scale.skipped(), skipped);
  }
}

// GradScaler's constants: 65,536 to start with, doubled after 2,000 steps.
TEST(LossScale, StartsAndGrowsAsGradScaler) {
  LossScale scale(LossScale::Rule{});
  EXPECT_EQ(scale.value(), 65536);
  for (int step = 0; step < 1999; ++step) scale.observe(true);
  EXPECT_EQ(scale.value(), 65536);
  scale.observe(true);
  EXPECT_EQ(scale.value(), 131072);
  scale.observe(false);
  EXPECT_EQ(scale.value(), 65536);
}

}  // namespace
}  // namespace ddl
