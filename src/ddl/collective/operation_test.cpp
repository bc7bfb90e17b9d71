#include "ddl/collective/operation.h"

#include <random>

#include <gtest/gtest.h>

namespace ddl {
namespace {

TEST(Operation, PacksEveryFieldWhole) {
  for (const auto goal : kGoals)
    for (const auto op : kReduceOps)
      for (const auto type : kElementTypes) {
        Operation operation{goal, op, type, 255, 65535, 65534, ~std::uint64_t{0}, ~std::uint64_t{0}, 4095};
        if (goal == Goal::point_to_point) operation.number >>= 40, operation.elements >>= 24;
        EXPECT_EQ(unpack(pack(operation)), operation);
      }
}

TEST(Operation, TellsAnyTwoApart) {
  const Operation one{Goal::all_reduce, ReduceOp::sum, ElementType::fp32, 1, 0, 0, 12, 1024};
  for (const auto change : {+[](Operation& o) { o.goal = Goal::broadcast; }, +[](Operation& o) { o.op = ReduceOp::max; },
                            +[](Operation& o) { o.type = ElementType::int32; }, +[](Operation& o) { o.algorithm = 2; },
                            +[](Operation& o) { o.root = 1; }, +[](Operation& o) { o.peer = 1; },
                            +[](Operation& o) { o.number = 13; }, +[](Operation& o) { o.elements = 1023; }, +[](Operation& o) { o.options = 1; }}) {
    auto other = one;
    change(other);
    EXPECT_NE(pack(other), pack(one));
  }
}

TEST(Operation, ReadsLikeWhatWasAskedFor) {
  EXPECT_EQ(to_string({Goal::all_reduce, ReduceOp::sum, ElementType::fp32, 0, 0, 0, 12, 1024}),
            "#12 all-reduce (ring, sum) of 1024 fp32");
  EXPECT_EQ(to_string({Goal::broadcast, ReduceOp::sum, ElementType::int64, 8, 3, 0, 7, 5}),
            "#7 broadcast (binomial, root 3) of 5 int64");
  EXPECT_EQ(to_string({Goal::point_to_point, ReduceOp::sum, ElementType::fp32, 19, 2, 0, 3, 5}), "#3 point-to-point (from 2 to 0) of 5 fp32");
}

TEST(Operation, AMessageHasANumberButNoOrderAmongTheGroups) {
  Operation message{Goal::point_to_point, ReduceOp::sum, ElementType::fp32, 19, 2, 0, 3, 5};
  const auto third = pack(message);
  EXPECT_EQ(third.order, 0U);
  message.number = 4;
  EXPECT_NE(pack(message), third);
  EXPECT_EQ(unpack(third).number, 3U);
}

TEST(Operation, TakesAnyBits) {
  for (std::uint64_t bits = 1; bits != 0; bits <<= 1) EXPECT_FALSE(describe_operation({bits * 0x9e3779b97f4a7c15ULL, bits, bits}).empty());
  std::mt19937_64 random(7);
  for (int i = 0; i < 10'000; ++i) {
    const auto operation = unpack({random(), random(), random()});
    EXPECT_EQ(unpack(pack(operation)), operation);
  }
}

}  // namespace
}  // namespace ddl
