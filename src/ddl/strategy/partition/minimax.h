#pragma once

#include <functional>
#include <vector>

namespace ddl {

/// What a stage of places [first, last) costs, and a cost below which no stage goes that begins no later and ends there too.
struct StageCost {
  double cost = 0;
  double least = 0;
};

struct Split {
  std::vector<int> starts = {};  ///< of each stage; the first is 0
  double largest = 0;
};

/// Cuts `places` into `stages` runs of one or more so that the largest cost is the least possible, and among such splits (costs within a
/// part in a billion of it: sums of floating point) the one whose cuts carry the fewest bytes in total.
/// Cost:    at most stages * places^2 evaluations twice over; about places^2 / stages where cost grows with the run.
/// Method:  L(s, b) = min over a of max(L(s-1, a), cost(s, a, b)), L the largest cost of stages 0 to s over places [0, b); then the same
///          recurrence with sums of bytes, over stages that cost no more than the optimum.
Split minimise_largest(int places, int stages, const std::function<StageCost(int stage, int first, int last)>& cost,
                       const std::function<double(int place)>& bytes);

}  // namespace ddl
