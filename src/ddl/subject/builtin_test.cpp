#include <cstdlib>

#include <gtest/gtest.h>

#include "ddl/subject/subject.h"

namespace ddl {
namespace {

TEST(Subjects, OursIsAlwaysThere) { EXPECT_EQ(builtin_subjects().at("ddlbench").make(), nullptr); }

TEST(Subjects, APeerWithoutItsPythonSaysSo) {
  ::setenv("DDLBENCH_PYTHON", "/nowhere/python", 1);
  const auto subjects = builtin_subjects();
  ::unsetenv("DDLBENCH_PYTHON");
  try {
    subjects.at("torch-ddp");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::unsupported);
    EXPECT_NE(std::string(error.what()).find("DDLBENCH_PYTHON=/nowhere/python"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace ddl
