#pragma once

#include <cstddef>
#include <vector>

namespace ddl {

/// A stretch of a long series, for a plot: the raw values stay in the record.
struct SeriesBin {
  double at = 0;   ///< the place of its first value
  std::size_t count = 0;
  double low = 0, median = 0, high = 0;   ///< 5th, 50th, 95th percentile of its values
};

/// At most `most` buckets of neighbours; where there are fewer values than that, each is its own. NaN is left out.
std::vector<SeriesBin> thin(const std::vector<double>& values, std::size_t most, std::size_t skip = 0);

/// Four figures: a plot shows no more, and a page of long series stays small.
double rounded(double value);

}  // namespace ddl
