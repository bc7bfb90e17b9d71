#include "ddl/train/loss_scale.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "ddl/core/random.h"

namespace ddl {
namespace {

// Whatever happens, in any order: LibTorch's own operator says the same after every step.
TEST(LossScale, FollowsLibTorchsOperator) {
  Random random(7);
  for (const double one_in : {3.0, 10.0, 1e9}) {
    const LossScale::Rule rule{65536, 2, 0.5, 5};
    LossScale ours(rule);
    auto scale = at::full({}, static_cast<float>(rule.initial)), found = at::zeros({});
    auto good = at::zeros({}, at::kInt);
    std::int64_t skipped = 0;
    for (int step = 0; step < 2000; ++step) {
      const bool finite = random.uniform() >= 1 / one_in;
      found.fill_(finite ? 0 : 1);
      at::_amp_update_scale_(scale, good, found, rule.growth, rule.backoff, rule.interval);
      ours.observe(finite);
      skipped += finite ? 0 : 1;
      ASSERT_EQ(static_cast<float>(ours.value()), scale.item<float>()) << "step " << step << ", one in " << one_in;
    }
    EXPECT_EQ(ours.skipped(), skipped);
  }
}

}  // namespace
}  // namespace ddl
