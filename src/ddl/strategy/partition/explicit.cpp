#include <algorithm>
#include <charconv>
#include <numeric>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/strategy/partition/intervals.h"

namespace ddl {

Partition parse_partition(std::string_view text, const LayerCosts& costs) {
  const Intervals layers(costs);
  std::vector<int> counts;
  for (const auto& part : split(text, '/')) {
    int count = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), count);
    if (error != std::errc{} || end != part.data() + part.size() || count < 1)
      throw Error(Code::invalid_argument,
                  fmt::format("[partition] '{}' names a stage that is no number of layers; got '{}', expected 1 or more", text, part));
    counts.push_back(count);
  }
  const auto sum = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  if (sum != layers.size())
    throw Error(Code::invalid_argument,
                fmt::format("[partition] stages of '{}' hold every layer of {} once (inputs not counted); got a sum of {}, expected {}", text,
                            costs.network, sum, layers.size()));
  std::vector<int> starts{0};
  for (std::size_t stage = 0; stage + 1 < counts.size(); ++stage) starts.push_back(starts.back() + counts[stage]);
  return layers.partition(starts, *std::max_element(counts.begin(), counts.end()));
}

}  // namespace ddl
