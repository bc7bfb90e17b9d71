#include "ddl/strategy/bucket_sizes.h"

#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/core/units.h"
#include "ddl/nn/builtin.h"
#include "ddl/strategy/builtin.h"
#include "ddl/strategy/common.h"

namespace ddl {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

TEST(BucketSizes, GoFromOneMebibyteToAllInOne) {
  EXPECT_EQ(bucket_sizes(200 * kMiB), (std::vector<std::int64_t>{kMiB, 6 * kMiB, 25 * kMiB, 100 * kMiB, 200 * kMiB}));
  EXPECT_EQ(bucket_sizes(10 * kMiB), (std::vector<std::int64_t>{kMiB, 6 * kMiB, 10 * kMiB}));
  EXPECT_EQ(bucket_sizes(kMiB), (std::vector<std::int64_t>{kMiB})) << "nothing to choose";
  EXPECT_EQ(bucket_sizes(100), (std::vector<std::int64_t>{100}));
}

TEST(BucketSizes, AreSoughtWhereThatIsAskedFor) {
  EXPECT_TRUE(tunes_buckets(parse_spec("data[bucket=auto,overlap=off]")));
  EXPECT_FALSE(tunes_buckets(parse_spec("data[bucket=25MiB]")));
  EXPECT_FALSE(tunes_buckets(parse_spec("data")));
  const auto found = with_bucket(parse_spec("data[bucket=auto,overlap=off]"), 12'345'678);
  EXPECT_EQ(parse_bytes(found.options.at("bucket")).value, 12'345'678) << "to the byte";
  EXPECT_EQ(found.options.at("overlap"), "off");
}

Plan planned(const std::string& strategy) {
  static const auto graph = mlp(parse_spec("mlp[hidden=2048,layers=4]"), {1, 28, 28, 10});
  StrategyInput input{graph, 2, 8, 4, parse_spec(strategy)};
  return builtin_strategies().at(input.spec.name).make(input);
}

TEST(BucketSizes, UntilOneIsFoundPlansAreAsIfNothingWereSaid) {
  const auto tuned = planned("data[bucket=auto]"), plain = planned("data");
  ASSERT_EQ(tuned.roles[0].buckets.size(), plain.roles[0].buckets.size());
  for (std::size_t i = 0; i < plain.roles[0].buckets.size(); ++i) EXPECT_EQ(tuned.roles[0].buckets[i].bytes, plain.roles[0].buckets[i].bytes);
}

TEST(BucketSizes, AreRefusedWhereBucketsCannotBeCutAnew) {
  for (const auto* strategy : {"data[bucket=auto,compress=fp16]", "data[bucket=auto,in-process=parallel]", "local[bucket=auto]", "sharded[level=1,bucket=auto]", "pipeline[bucket=auto]"}) {
    try {
      planned(strategy);
      ADD_FAILURE() << strategy;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_argument) << strategy;
      EXPECT_NE(std::string(error.what()).find("auto"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("expected"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace ddl
