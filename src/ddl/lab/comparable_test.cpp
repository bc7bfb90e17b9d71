#include "ddl/lab/comparable.h"

#include <gtest/gtest.h>

#include "ddl/core/error.h"

namespace ddl {
namespace {

Experiment experiment(const std::string& strategy, const std::string& batch, const std::string& workers = "2", const std::string& subject = "ddlbench",
                      const std::string& transport = "shm") {
  return resolve({{"strategy", {strategy, "--strategy"}},
                  {"batch", {batch, "study.yaml:3:" + batch}},
                  {"workers", {workers, "--workers"}},
                  {"subject", {subject, "--subject"}},
                  {"transport", {transport, "--transport"}}});
}

/// What the refusal says; empty where there is none.
std::string refusal(const std::vector<Experiment>& experiments) {
  try {
    require_equal_batches(experiments);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Comparable, StrategiesAndPackagesAtOneGlobalBatch) {
  EXPECT_EQ(refusal({experiment("data", "64"), experiment("pipeline[micro=4]", "64"), experiment("data", "64", "2", "torch-ddp")}), "");
}

TEST(Comparable, StrongScaling) {
  EXPECT_EQ(refusal({experiment("single", "64", "1"), experiment("data", "64"), experiment("data", "64", "4"), experiment("model", "64", "3")}), "");
}

TEST(Comparable, EachAtEachBatch) {
  EXPECT_EQ(refusal({experiment("data", "64"), experiment("data", "128"), experiment("model", "128", "3"), experiment("model", "64", "3")}), "");
  EXPECT_EQ(refusal({experiment("data", "64"), experiment("data", "128"), experiment("data", "256")}), "") << "a study of the batch";
  EXPECT_NE(refusal({experiment("data", "64"), experiment("data", "128"), experiment("model", "64")}), "");
}

TEST(Comparable, OfOneNetworkAndDataSetAlone) {
  auto other = experiment("data", "128", "4");
  other.job.model = parse_spec("resnet18");
  EXPECT_EQ(refusal({experiment("data", "64"), other}), "");
}

TEST(Comparable, WhatIsTunedWithTheBatchIsNoOtherWay) {
  auto tuned = experiment("data", "128");
  tuned.config["learning_rate"] = 0.1;
  tuned.config["accumulate"] = 2;
  EXPECT_EQ(refusal({experiment("data", "64"), tuned}), "");
}

TEST(Comparable, NotAtDifferentOnes) {
  const auto one = experiment("data", "64");
  for (const auto& other : {experiment("pipeline[micro=4]", "128"), experiment("data", "128", "2", "torch-ddp"), experiment("pipeline[micro=4]", "128", "4"),
                            experiment("data", "128", "4", "torch-ddp"), experiment("data", "128", "2", "ddlbench", "tcp"), experiment("data", "128", "cpu[threads=2]:2")})
    for (const auto& what : {refusal({one, other}), refusal({other, one})}) {
      EXPECT_TRUE(what.starts_with("study.yaml:3:64: batch: ") || what.starts_with("study.yaml:3:128: batch: ")) << what;
      for (const auto* part : {"64", "128", "data with cpu:2", "--unequal-batch"}) EXPECT_NE(what.find(part), std::string::npos) << what;
    }
}

TEST(Comparable, WeakScalingHasToBeAskedFor) {
  const auto what = refusal({experiment("data", "64"), experiment("data", "128", "4")});
  EXPECT_NE(what.find("got 64 for data with cpu:2 and 128 for data with cpu:4"), std::string::npos) << what;
  EXPECT_NE(what.find("weak scaling"), std::string::npos) << what;
}

TEST(Comparable, PointsAtTheBatchThatIsAlone) {
  const auto what = refusal({experiment("data", "64"), experiment("model", "64"), experiment("model", "256")});
  EXPECT_TRUE(what.starts_with("study.yaml:3:256: batch: ")) << what;
}

}  // namespace
}  // namespace ddl
