#include "ddl/report/format.h"

#include <limits>

#include <gtest/gtest.h>

namespace ddl {
namespace {

TEST(Format, ShowsAboutThreeFigures) {
  EXPECT_EQ(in_figures(8123.4), "8,123");
  EXPECT_EQ(in_figures(1234567), "1,234,567");
  EXPECT_EQ(in_figures(999.9), "1,000");
  EXPECT_EQ(in_figures(99.96), "100");
  EXPECT_EQ(in_figures(52.34), "52.3");
  EXPECT_EQ(in_figures(4.1), "4.10");
  EXPECT_EQ(in_figures(0.0341), "0.034");
  EXPECT_EQ(in_figures(-1234), "-1,234");
  EXPECT_EQ(in_figures(std::numeric_limits<double>::quiet_NaN()), "-");
  EXPECT_EQ(in_figures(std::numeric_limits<double>::infinity()), "-");
}

TEST(Format, SharesAndRatios) {
  EXPECT_EQ(in_percent(0.2149), "21 %");
  EXPECT_EQ(in_percent(0.094), "9.4 %");
  EXPECT_EQ(in_percent(0.0999), "10 %");
  EXPECT_EQ(in_percent(0), "0 %");
  EXPECT_EQ(in_percent(1), "100 %");
  EXPECT_EQ(in_times(1.619), "1.62x");
}

TEST(Format, Words) {
  EXPECT_EQ(in_words(2), "two");
  EXPECT_EQ(in_words(13), "13");
  EXPECT_EQ(counted(1, "worker"), "1 worker");
  EXPECT_EQ(counted(1024, "worker"), "1,024 workers");
  EXPECT_EQ(capitalised("two"), "Two");
  EXPECT_EQ(enumerated({"shm", "tcp", "mpi"}), "shm, tcp and mpi");
  EXPECT_EQ(enumerated({"shm"}), "shm");
  EXPECT_EQ(enumerated({}), "");
}

TEST(Format, WidthCountsCodePoints) { EXPECT_EQ(display_width("größer · 2"), 10u); }

}  // namespace
}  // namespace ddl
