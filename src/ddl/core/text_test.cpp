#include "ddl/core/text.h"

#include <gtest/gtest.h>

namespace ddl {
namespace {

const std::vector<std::string> kKnown{"model", "dataset", "strategy", "workers"};

TEST(Text, NearestFindsTypingMistakes) {
  EXPECT_EQ(nearest("modle", kKnown), "model");
  EXPECT_EQ(nearest("modl", kKnown), "model");
  EXPECT_EQ(nearest("startegy", kKnown), "strategy");
  EXPECT_EQ(nearest("elephant", kKnown), "");
  EXPECT_EQ(did_you_mean("worker", kKnown), " (did you mean 'workers'?)");
}

TEST(Text, SplitKeepsEmptyParts) {
  EXPECT_EQ(split("a,,b", ','), (std::vector<std::string>{"a", "", "b"}));
  EXPECT_EQ(split("", ','), (std::vector<std::string>{""}));
}

TEST(Text, TrimAndJoin) {
  EXPECT_EQ(trim("  a b\n"), "a b");
  EXPECT_EQ(trim(" \t"), "");
  EXPECT_EQ(join(kKnown, " "), "model dataset strategy workers");
}

}  // namespace
}  // namespace ddl
