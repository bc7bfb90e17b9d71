#include "ddl/core/error.h"

#include <cerrno>

#include <gtest/gtest.h>

namespace ddl {
namespace {

TEST(Error, KeepsCodeMessageAndPlace) {
  const Error error(Code::timeout, "[barrier] rank 3 did not come; got 2 ranks, expected 3");
  EXPECT_EQ(error.code(), Code::timeout);
  EXPECT_STREQ(error.what(), "[barrier] rank 3 did not come; got 2 ranks, expected 3");
  EXPECT_NE(std::string(error.where().file_name()).find("error_test.cpp"), std::string::npos);
}

TEST(Error, NamesAreInvertible) {
  for (const auto code : {Code::invalid_argument, Code::not_found, Code::unsupported, Code::io, Code::timeout,
                          Code::peer_lost, Code::corrupt, Code::interrupted})
    EXPECT_EQ(code_from_name(name(code)), code);
  EXPECT_THROW(code_from_name("whatever"), Error);
}

TEST(Error, SystemErrorNamesTheCause) {
  EXPECT_STREQ(system_error("[idx] cannot open /x", ENOENT).what(),
               "[idx] cannot open /x: No such file or directory");
}

TEST(InvariantDeathTest, AbortsAndSaysWhat) { EXPECT_DEATH(invariant(false, "two is three"), "two is three"); }

}  // namespace
}  // namespace ddl
