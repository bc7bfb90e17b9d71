#pragma once

#include <vector>

namespace ddl {

/// What each of `players` is worth, `worth` being what every set of them comes to: set number s has player p where bit p of s is set. The mean, over all orders in which they may come, of what each adds to
/// those before it: it depends on no order, and adds up to the worth of all less that of none.
/// Source: L. S. Shapley, "A value for n-person games", Contributions to the Theory of Games II, 1953.
/// Errors: invalid_argument unless there are 2^players sets. Cost: players times sets.
std::vector<double> shapley_values(int players, const std::vector<double>& worth);

}  // namespace ddl
