#pragma once

#include <algorithm>
#include <cstdint>

#include "ddl/nn/kernels/column_sums.h"
#include "ddl/nn/threads.h"

namespace ddl {

/// `f(first, count)` for neighbouring columns of a matrix, by as many threads as have work enough: what goes down the rows of one column is in the same order on any number of them.
template <typename F>
void share_out_columns(std::int64_t rows, std::int64_t columns, F&& f) {
  const auto blocks = (columns + kColumnsOfAThread - 1) / kColumnsOfAThread;
  share_out(blocks, rows * kColumnsOfAThread, [&](std::int64_t begin, std::int64_t end) {
    const auto first = begin * kColumnsOfAThread;
    f(first, std::min(columns, end * kColumnsOfAThread) - first);
  });
}

}  // namespace ddl
