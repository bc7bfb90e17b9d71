#pragma once

#include <cstdint>

#include "ddl/core/bf16.h"

namespace ddl {

/// The sum of each column of a matrix [rows, columns], its rows one after the other: the gradient of a bias. Sums of 128 rows are in fp32, and theirs in fp64: however many rows there are, the error is that of the first.
void column_sums(std::int64_t rows, std::int64_t columns, const float* from, float* to);
void column_sums(std::int64_t rows, std::int64_t columns, const Bf16* from, float* to);
void column_sums(std::int64_t rows, std::int64_t columns, const double* from, double* to);

}  // namespace ddl
