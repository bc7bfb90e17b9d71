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

/// The same split where a run costs as much at one stage as at another, and no less than any run within it: thousands of places in thousands of stages.
/// Cost:    about stages * log(places / stages) evaluations for each of some fifty guesses of the optimum; then two for each end that a stage may have within it, at most
///          stages * (places - stages + 1) and few where costs are even.
/// Method:  a guess is feasible if stages that each reach as far as it allows come to the end; between one that is and one that is not no number is left at last, so that the optimum is
///          exact. Then the recurrence with sums of bytes, over ends that can be reached from both sides alone: the starts that a stage may have for a later end are a later window, and the
///          least sum of a window that moves on is kept in order.
/// Source:  the guess: Pinar & Aykanat, Fast optimal load balancing algorithms for 1D partitioning, JPDC 2004, section 4.
Split minimise_largest_alike(int places, int stages, const std::function<double(int first, int last)>& cost, const std::function<double(int place)>& bytes);

}  // namespace ddl
