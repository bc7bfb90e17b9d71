#pragma once

#include <cstdint>

#include "ddl/nn/kernels/column_sums.h"

namespace ddl {

/// Adds row r of `from` to row numbers[r] of `to`, one after the other; both lie as far apart.
void add_rows(const Columns& of, const std::int64_t* numbers, const float* from, float* to);
void add_rows(const Columns& of, const std::int64_t* numbers, const double* from, double* to);

}  // namespace ddl
