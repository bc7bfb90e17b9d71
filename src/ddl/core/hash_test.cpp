#include "ddl/core/hash.h"

#include <gtest/gtest.h>

namespace ddl {
namespace {

TEST(Hash, IsTheReferenceXxh3) {
  // The empty input's XXH3-128 in the xxHash specification's test vectors.
  EXPECT_EQ(digest(""), "99aa06d3014798d86001c324468d497f");
}

TEST(Hash, StreamsLikeOneBlock) {
  EXPECT_EQ(Hasher().add("ab").add("c").digest(), digest("abc"));
  EXPECT_NE(digest("abc"), digest("abd"));
}

}  // namespace
}  // namespace ddl
