#pragma once

#include <span>
#include <string>
#include <vector>

namespace ddl {

/// One prediction beside what was measured, in the table's own unit: seconds, or samples/s.
struct Predicted {
  double measured = 0, value = 0, low = 0, high = 0;
  bool rate = false;      ///< samples/s: more is better
  std::string choice_of;  ///< what the row is one way to do: among rows of the same, somebody would choose; empty: none
  double batch = 1;       ///< samples of a step
  double error_pct() const { return 100 * (value - measured) / measured; }
};

/// How good a set of predictions is.
struct Accuracy {
  int rows = 0;
  double mape = 0;      ///< %: mean of |error|
  double max = 0;       ///< %: largest |error|
  double bias = 0;      ///< %: mean error
  double tau = 0;       ///< Kendall's tau-b of measured and predicted times; NaN where all are alike
  double regret = 0;    ///< %: how much slower the choice predicted best is than the best, mean over the problems that have a choice; NaN where none has
  double coverage = 0;  ///< share of rows that lie inside their interval
  double wide = 0;      ///< how wide that is: so many times as much or as little, the geometric mean of half the ratio of its ends
};

Accuracy accuracy(const std::vector<Predicted>& all);

/// Kendall's tau-b (Kendall 1945), which counts ties. NaN where one side is all alike.
double kendall_tau(std::span<const double> a, std::span<const double> b);

}  // namespace ddl
