#pragma once

#include <cstdint>

#include "ddl/core/bf16.h"

namespace ddl {

/// Some neighbouring columns of a matrix, whose rows are `apart` elements apart.
struct Columns {
  std::int64_t rows, columns, apart;
};

/// So many are worth reading in every row: several lines of a cache.
inline constexpr std::int64_t kColumnsOfAThread = 64;

/// The sum of each column: the gradient of a bias. Sums of 128 rows are in fp32, and theirs in fp64: however many rows there are, the error is that of the first.
void column_sums(const Columns& of, const float* from, float* to);
void column_sums(const Columns& of, const Bf16* from, float* to);
void column_sums(const Columns& of, const double* from, double* to);

}  // namespace ddl
