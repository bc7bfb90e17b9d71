#include "ddl/core/units.h"

#include <gtest/gtest.h>

#include "ddl/core/error.h"

namespace ddl {
namespace {

TEST(Units, ParsesWhatPeopleWrite) {
  EXPECT_EQ(parse_bytes("25MiB").value, 25 << 20);
  EXPECT_EQ(parse_bytes("1.5 KiB").value, 1536);
  EXPECT_EQ(parse_bytes("2GB").value, 2'000'000'000);
  EXPECT_DOUBLE_EQ(parse_seconds("200us").value, 200e-6);
  EXPECT_DOUBLE_EQ(parse_seconds("2min").value, 120);
  EXPECT_DOUBLE_EQ(parse_bits_per_second("10Gbps").value, 1e10);
  EXPECT_EQ(parse_bytes("0").value, 0);
}

TEST(Units, RefusesMissingAndUnknownUnits) {
  for (const auto* bad : {"25", "25 parsecs", "MiB", "", "1e999MiB", "-1MiB", "25MiBx"}) EXPECT_THROW(parse_bytes(bad), Error) << bad;
  try {
    parse_seconds("5");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[units] missing unit of a time; got '5', expected one of: s ms us ns min h");
  }
}

TEST(Units, PrintsForPeople) {
  EXPECT_EQ(to_string(Bytes{25 << 20}), "25 MiB");
  EXPECT_EQ(to_string(Seconds{0.00153}), "1.53 ms");
  EXPECT_EQ(to_string(Seconds{0}), "0 ns");
  EXPECT_EQ(to_string(BitsPerSecond{1e10}), "10 Gbit/s");
}

}  // namespace
}  // namespace ddl
