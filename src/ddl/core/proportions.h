#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace ddl {

/// Where part number `part` of a whole begins and ends that is cut in these proportions: each cut at the whole times what stands before it over all, rounded down, so that parts add up and none is one or more off.
inline std::pair<std::int64_t, std::int64_t> proportional_part(std::int64_t whole, const std::vector<std::int64_t>& proportions, std::size_t part) {
  const auto all = std::accumulate(proportions.begin(), proportions.end(), std::int64_t{0});
  const auto before = std::accumulate(proportions.begin(), proportions.begin() + static_cast<std::ptrdiff_t>(part), std::int64_t{0});
  return {whole * before / all, whole * (before + proportions.at(part)) / all};
}

}  // namespace ddl
