#pragma once

#include <cstddef>

namespace ddl {

/// Place of what is counted from 0 (a rank, task, layer: `int`, as in plans) in a container, which counts in `std::size_t`. Unchecked: `number` is not negative.
constexpr std::size_t at(int number) { return static_cast<std::size_t>(number); }

}  // namespace ddl
