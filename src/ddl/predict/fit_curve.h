#pragma once

#include <cstddef>
#include <vector>

#include "ddl/predict/wire_cost.h"

namespace ddl {

/// What one and the same schedule took on a buffer of so many bytes, and what it asks for there.
struct CurveSample {
  std::size_t bytes = 0;
  double seconds = 0;
  Counts counts = {};
};

/// Unit costs that go through all of them, and between them along lines: where one schedule is all that was timed at each size, nothing tells what rounds cost from what bytes cost but how time goes with size. A line whose
/// start would be below zero (more bytes than a cache holds cost more each) is replaced by proportions, along the logarithms, in pieces of a factor of root two. Below the smallest its neighbour's line goes on, above the largest, too.
/// `samples`: in ascending order of their sizes, one of each, none without bytes; at least one.
WireCost fit_curve(const std::vector<CurveSample>& samples);

}  // namespace ddl
