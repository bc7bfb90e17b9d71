#include "ddl/predict/datasheet/library.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "ddl/core/error.h"

namespace ddl {
namespace {

namespace fs = std::filesystem;

/// A folder with machines/ of its own, which is looked in first.
class Library : public testing::Test {
 protected:
  void SetUp() override {
    before_ = fs::current_path();
    folder_ = fs::temp_directory_path() / ("ddlbench_library_" + std::to_string(::getpid()));
    fs::create_directories(folder_ / "machines" / "stacks");
    fs::create_directories(folder_ / "machines" / "libraries");
    fs::current_path(folder_);
  }
  void TearDown() override {
    fs::current_path(before_);
    fs::remove_all(folder_);
  }
  void write(const std::string& file, const std::string& text) { std::ofstream(folder_ / "machines" / file) << text; }

  static std::string refusal(const std::function<void()>& of) {
    try {
      of();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::unsupported);
      return error.what();
    }
    return "";
  }

 private:
  fs::path before_, folder_;
};

// Constants that are frozen are of a version, as profiles are.
TEST_F(Library, AnotherSchemaIsNotRead) {
  write("stacks/own.json", R"({"schema": "ddlbench.stack/2", "gpt": {}})");
  write("libraries/own.json", R"({"name": "own"})");
  EXPECT_NE(refusal([] { find_stack("own"); }).find("got schema \"ddlbench.stack/2\", expected one of: ddlbench.stack/1"), std::string::npos);
  EXPECT_NE(refusal([] { stack_with("own", "gpt"); }).find("stacks/own.json"), std::string::npos);
  EXPECT_NE(refusal([] { find_library("own"); }).find("got schema null, expected one of: ddlbench.library/1"), std::string::npos);
  write("stacks/own.json", R"({"schema": "ddlbench.stack/1", "gpt": {}})");
  EXPECT_TRUE(stack_with("own", "gpt"));
  EXPECT_FALSE(stack_with("own", "images"));
  write("libraries/own.json", R"({"schema": "ddlbench.stack/1"})");
  EXPECT_FALSE(refusal([] { find_library("own"); }).empty()) << "a stack is no library";
}

TEST_F(Library, AllThatShipsIsOfItsSchema) {
  ASSERT_FALSE(shipped_stacks().empty());
  for (const auto& name : shipped_stacks()) EXPECT_NO_THROW(find_stack(name)) << name;
  for (const auto& name : shipped_libraries()) EXPECT_NO_THROW(find_library(name)) << name;
}

}  // namespace
}  // namespace ddl
