#include "ddl/core/spec.h"

#include <gtest/gtest.h>

#include "ddl/core/error.h"

namespace ddl {
namespace {

TEST(Spec, ParsesNamesAndOptions) {
  EXPECT_EQ(parse_spec("single"), (Spec{"single", {}}));
  EXPECT_EQ(parse_spec("data[collective=ring, bucket=25MiB]"),
            (Spec{"data", {{"collective", "ring"}, {"bucket", "25MiB"}}}));
  EXPECT_EQ(parse_spec("parameter-server[async]"), (Spec{"parameter-server", {{"async", "on"}}}));
  EXPECT_EQ(parse_spec("cpu[]"), (Spec{"cpu", {}}));
}

TEST(Spec, RoundTrips) {
  for (const auto* text : {"data", "data[bucket=25MiB,collective=ring]"}) EXPECT_EQ(to_string(parse_spec(text)), text);
}

TEST(Spec, RefusesWhatDoesNotFit) {
  for (const auto* bad : {"", "[a=1]", "data[a=1", "data]", "data[a=]", "data[=1]", "data[a=1,a=2]", "data[a[b]]", "a=b"})
    EXPECT_THROW(parse_spec(bad), Error) << bad;
}

TEST(Spec, SplitsOutsideBrackets) {
  EXPECT_EQ(split_outside_brackets("cpu[a=1,b=2]:2,cuda:1"), (std::vector<std::string>{"cpu[a=1,b=2]:2", "cuda:1"}));
}

TEST(Spec, NamesTheUnknownOption) {
  try {
    require_options(parse_spec("data[buckt=1MiB]"), {"bucket", "overlap"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[data] unknown option 'buckt' (did you mean 'bucket'?); expected one of: bucket overlap");
  }
}

}  // namespace
}  // namespace ddl
