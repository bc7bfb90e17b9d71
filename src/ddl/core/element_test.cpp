#include "ddl/core/element.h"

#include <gtest/gtest.h>

#include "ddl/core/error.h"

namespace ddl {
namespace {

TEST(Element, NamesGoThereAndBack) {
  for (const auto type : kElementTypes) EXPECT_EQ(element_type_from_name(name(type)), type);
  for (const auto op : kReduceOps) EXPECT_EQ(reduce_op_from_name(name(op)), op);
}

TEST(Element, SizesAreThoseOfTheFormats) {
  EXPECT_EQ(size_of(ElementType::bf16), 2U);
  EXPECT_EQ(size_of(ElementType::fp16), 2U);
  EXPECT_EQ(size_of(ElementType::fp32), 4U);
  EXPECT_EQ(size_of(ElementType::int64), 8U);
}

TEST(Element, SaysTheNearestName) {
  try {
    element_type_from_name("fp23");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument);
    EXPECT_NE(std::string(error.what()).find("fp32"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace ddl
