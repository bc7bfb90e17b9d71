#include "ddl/predict/datasheet/overlap.h"

#include <gtest/gtest.h>

namespace ddl {
namespace {

constexpr TensorOverlap kFourPieces{4, 0.125};

// Of eight ranks one part of eight is there from the start; what is longer decides, and a part of the other has nothing beside it.
TEST(TensorOverlap, PartsComeAroundARing) {
  EXPECT_DOUBLE_EQ(kFourPieces.gathered(8, 4, 8), 8.5);
  EXPECT_DOUBLE_EQ(kFourPieces.gathered(4, 8, 8), 8.5);
  EXPECT_DOUBLE_EQ(kFourPieces.gathered(8, 0, 8), 8);
}

// Copies slow the product that runs beside them by the multiprocessors that they take.
TEST(TensorOverlap, SumsOfTheLastPieceTravelAlone) {
  EXPECT_DOUBLE_EQ(kFourPieces.scattered(8, 4), 8.5 + 1);
  EXPECT_DOUBLE_EQ(kFourPieces.scattered(4, 8), 8 + 1);
  EXPECT_DOUBLE_EQ(kFourPieces.scattered(8, 0), 8);
}

TEST(TensorOverlap, BesideAnotherProduct) {
  EXPECT_DOUBLE_EQ(kFourPieces.beside(8, 4), 8.5);
  EXPECT_DOUBLE_EQ(kFourPieces.beside(4, 8), 8);
  EXPECT_FALSE(TensorOverlap{});
}

TEST(TensorOverlap, WhatIsExposedOfAnExchange) {
  EXPECT_DOUBLE_EQ(exposed(10, 4, 5), 6);
  EXPECT_DOUBLE_EQ(exposed(10, 9, 5), 2);
  EXPECT_DOUBLE_EQ(exposed(10, 0, 1), 10);
}

}  // namespace
}  // namespace ddl
