#include "ddl/report/plot_data.h"

#include <algorithm>
#include <cmath>

#include "ddl/core/statistics.h"

namespace ddl {

std::vector<SeriesBin> thin(const std::vector<double>& values, std::size_t most, std::size_t skip) {
  std::vector<SeriesBin> buckets;
  if (skip >= values.size() || most == 0) return buckets;
  const std::size_t size = (values.size() - skip + most - 1) / most;
  for (std::size_t begin = skip; begin < values.size(); begin += size) {
    std::vector<double> part;
    for (std::size_t i = begin; i < std::min(begin + size, values.size()); ++i)
      if (std::isfinite(values[i])) part.push_back(values[i]);
    if (part.empty()) continue;
    buckets.push_back({static_cast<double>(begin), part.size(), rounded(quantile(part, 0.05)), rounded(median(part)),
                       rounded(quantile(part, 0.95))});
  }
  return buckets;
}

double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double scale = std::pow(10.0, 3 - std::floor(std::log10(std::abs(value))));
  return std::round(value * scale) / scale;
}

}  // namespace ddl
