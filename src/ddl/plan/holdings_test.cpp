#include "ddl/plan/holdings.h"

#include <gtest/gtest.h>

namespace ddl {
namespace {

TEST(Holdings, AreToldInOneLine) {
  const Holdings holds{.parameters = 44'739'243, .optimizer = 1, .activations = 1 << 30};
  EXPECT_EQ(to_string(holds), "parameters 42.7 MiB, gradients 0 B, optimizer 1 B, buckets 0 B, activations 1 GiB");
}

}  // namespace
}  // namespace ddl
