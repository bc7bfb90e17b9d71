#include "ddl/strategy/bucketing.h"

#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/core/units.h"
#include "ddl/nn/builtin.h"
#include "ddl/strategy/builtin.h"
#include "ddl/strategy/common.h"

namespace ddl {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

std::vector<Bucketing> found(const char* strategy, std::int64_t bytes) { return bucketings(parse_spec(strategy), bytes); }

TEST(Bucketing, SizesGoFromOneMebibyteToAllInOne) {
  EXPECT_EQ(found("data[bucket=auto,overlap=on]", 200 * kMiB), (std::vector<Bucketing>{{25 * kMiB}, {kMiB}, {6 * kMiB}, {100 * kMiB}, {200 * kMiB}}));
  EXPECT_EQ(found("data[bucket=auto,overlap=on]", 100 * kMiB), (std::vector<Bucketing>{{25 * kMiB}, {kMiB}, {6 * kMiB}, {100 * kMiB}}));
  EXPECT_EQ(found("data[bucket=auto,overlap=off]", 10 * kMiB), (std::vector<Bucketing>{{10 * kMiB, false}, {kMiB, false}, {6 * kMiB, false}}));
  EXPECT_EQ(found("data[bucket=auto,overlap=on]", kMiB), (std::vector<Bucketing>{{kMiB}})) << "nothing to choose";
  EXPECT_EQ(found("data[bucket=auto,overlap=on]", 100), (std::vector<Bucketing>{{100}}));
}

TEST(Bucketing, TheOtherOverlapIsTriedWhereNothingIsSaidOfIt) {
  EXPECT_EQ(found("data[bucket=auto]", 10 * kMiB), (std::vector<Bucketing>{{10 * kMiB}, {kMiB}, {6 * kMiB}, {10 * kMiB, false}}));
  EXPECT_EQ(found("data[bucket=auto]", 100), (std::vector<Bucketing>{{100}, {100, false}}));
  EXPECT_EQ(found("data[bucket=auto,in-process=mirrored]", 100), (std::vector<Bucketing>{{100, false}, {100, true}})) << "whose own is off";
}

TEST(Bucketing, IsSoughtWhereThatIsAskedFor) {
  EXPECT_TRUE(tunes_buckets(parse_spec("data[bucket=auto,overlap=off]")));
  EXPECT_FALSE(tunes_buckets(parse_spec("data[bucket=25MiB]")));
  EXPECT_FALSE(tunes_buckets(parse_spec("data")));
  const auto taken = with_bucketing(parse_spec("data[bucket=auto,collective=ring]"), {12'345'678, false});
  EXPECT_EQ(parse_bytes(taken.options.at("bucket")).value, 12'345'678) << "to the byte";
  EXPECT_EQ(taken.options.at("overlap"), "off");
  EXPECT_EQ(taken.options.at("collective"), "ring");
}

Plan planned(const std::string& strategy) {
  static const auto graph = mlp(parse_spec("mlp[hidden=2048,layers=4]"), {1, 28, 28, 10});
  StrategyInput input{graph, 2, 8, 4, parse_spec(strategy)};
  return builtin_strategies().at(input.spec.name).make(input);
}

TEST(Bucketing, UntilItIsFoundPlansAreAsIfNothingWereSaid) {
  const auto tuned = planned("data[bucket=auto]"), plain = planned("data");
  ASSERT_EQ(tuned.roles[0].buckets.size(), plain.roles[0].buckets.size());
  for (std::size_t i = 0; i < plain.roles[0].buckets.size(); ++i) EXPECT_EQ(tuned.roles[0].buckets[i].bytes, plain.roles[0].buckets[i].bytes);
}

TEST(Bucketing, IsRefusedWhereBucketsCannotBeCutAnew) {
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
