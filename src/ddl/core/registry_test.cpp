#include "ddl/core/registry.h"

#include <gtest/gtest.h>

namespace ddl {
namespace {

Registry<std::function<int()>> numbers() {
  Registry<std::function<int()>> registry("number");
  registry.add({"one", "the first", [] { return 1; }});
  registry.add({"two", "the second", [] { return 2; }});
  registry.add({"omega", "the last", nullptr, "nobody has counted that far"});
  return registry;
}

TEST(Registry, FindsByName) { EXPECT_EQ(numbers().at("two").make(), 2); }

TEST(Registry, NamesTheNearest) {
  try {
    numbers().at("tow");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::not_found);
    EXPECT_STREQ(error.what(), "[number] unknown number 'tow' (did you mean 'two'?); expected one of: one two omega");
  }
}

TEST(Registry, SaysWhySomethingIsMissing) {
  try {
    numbers().at("omega");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::unsupported);
    EXPECT_NE(std::string(error.what()).find("nobody has counted"), std::string::npos);
  }
}

TEST(Registry, RefusesTheSameNameTwice) {
  auto registry = numbers();
  EXPECT_THROW(registry.add({"one", "again", nullptr}), Error);
}

}  // namespace
}  // namespace ddl
