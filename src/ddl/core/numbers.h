#pragma once

#include <cstddef>
#include <numeric>
#include <vector>

namespace ddl {

/// 0, 1, …, count - 1: the ranks of everyone in a group of so many.
inline std::vector<int> first_numbers(int count) {
  std::vector<int> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

}  // namespace ddl
