#include "ddl/lab/comparable.h"

#include <gtest/gtest.h>

#include "ddl/core/error.h"

namespace ddl {
namespace {

Experiment experiment(const std::string& strategy, const std::string& batch, const std::string& workers = "2", const std::string& subject = "ddlbench") {
  return resolve({{"strategy", {strategy, "--strategy"}}, {"batch", {batch, "study.yaml:3:4"}}, {"workers", {workers, "--workers"}}, {"subject", {subject, "--subject"}}});
}

TEST(Comparable, StrategiesAtOneGlobalBatch) {
  EXPECT_NO_THROW(require_equal_batches({experiment("data", "64"), experiment("pipeline[micro=4]", "64"), experiment("data", "64", "2", "torch-ddp")}));
  EXPECT_NO_THROW(require_equal_batches({experiment("data", "64"), experiment("data", "128"), experiment("model", "128"), experiment("model", "64")})) << "each at each batch";
  EXPECT_NO_THROW(require_equal_batches({experiment("data", "64"), experiment("data", "128", "4")})) << "weak scaling";
}

TEST(Comparable, NotAtDifferentOnes) {
  for (const auto& other : {experiment("pipeline[micro=4]", "128"), experiment("data", "128", "2", "torch-ddp")}) {
    try {
      require_equal_batches({experiment("data", "64"), other});
      ADD_FAILURE();
    } catch (const Error& error) {
      const std::string what = error.what();
      for (const auto* part : {"study.yaml:3:4: batch", "64", "128", "data", "--unequal-batch"}) EXPECT_NE(what.find(part), std::string::npos) << what;
    }
  }
}

}  // namespace
}  // namespace ddl
