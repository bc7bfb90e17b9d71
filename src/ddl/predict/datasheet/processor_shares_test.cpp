#include "ddl/predict/datasheet/processor_shares.h"

#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/predict/datasheet/library.h"

namespace ddl {
namespace {

Json processor(const Json& compute) { return {{"name", "here"}, {"device", {{"kind", "cpu"}, {"efficiency", {{"compute", compute}, {"memory", 0.5}, {"call_us", 4}}}}}}; }

TEST(ProcessorShares, OneShareIsThatOfAllCalls) {
  const auto shares = ProcessorShares::read(processor(0.6));
  for (const double seconds : {0.0, 1e-9, 1e-3, 10.0}) EXPECT_DOUBLE_EQ(shares.compute(seconds, true), 0.6) << seconds;
  EXPECT_DOUBLE_EQ(shares.memory(), 0.5);
  EXPECT_DOUBLE_EQ(shares.call(), 4e-6);
}

// A tenfold way is half of a hundredfold one.
TEST(ProcessorShares, GoByTheLogarithmOfWhatACallTakesAtThePeak) {
  const auto shares = ProcessorShares::read(processor(Json::parse("[[1, 0.1], [100, 0.5], [1000, 1.2]]")));
  EXPECT_NEAR(shares.compute(1e-6, true), 0.1, 1e-12);
  EXPECT_NEAR(shares.compute(10e-6, true), 0.3, 1e-12);
  EXPECT_NEAR(shares.compute(100e-6, true), 0.5, 1e-12);
  EXPECT_NEAR(shares.compute(1e-9, true), 0.1, 1e-12) << "level below";
  EXPECT_NEAR(shares.compute(1, true), 1.2, 1e-12) << "and above";
  EXPECT_NEAR(shares.compute(1, false), 0.95, 1e-12) << "nothing multiplies faster than it can but Winograd's convolutions";
}

TEST(ProcessorShares, Refuses) {
  const auto refused = [](const char* compute) {
    try {
      ProcessorShares::read(processor(Json::parse(compute)));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::corrupt);
      return std::string(error.what());
    }
    return std::string("taken");
  };
  EXPECT_NE(refused("[]").find("an empty list"), std::string::npos);
  EXPECT_NE(refused("[[1]]").find("got [1]"), std::string::npos);
  EXPECT_NE(refused("[[1, 0]]").find("got [1,0]"), std::string::npos);
  EXPECT_NE(refused("[[2, 0.1], [1, 0.2]]").find("got [1,0.2] after [2,0.1]"), std::string::npos);
  EXPECT_NE(refused("[[1, \"x\"]]").find("ascending"), std::string::npos);
}

// More work never takes less time, whatever a profile that ships says.
TEST(ProcessorShares, ShippedClassesTakeLongerForMore) {
  for (const auto* name : {"cpu-avx2", "cpu-avx512", "cpu-amx"}) {
    const auto shares = ProcessorShares::read(find_machine(name));
    double before = 0;
    for (double seconds = 1e-9; seconds < 1; seconds *= 1.1) {
      const double takes = seconds / shares.compute(seconds, true);
      EXPECT_GT(takes, before) << name << " " << seconds;
      before = takes;
    }
  }
}

}  // namespace
}  // namespace ddl
