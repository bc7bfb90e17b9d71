#pragma once

#include <cstdint>

namespace ddl {

/// Of a table and rows that are added to it, both `apart` elements from row to row: so many neighbouring columns.
struct AddedRows {
  std::int64_t rows, columns, apart;
};

/// Adds row r of `from` to row numbers[r] of `to`, one after the other.
void add_rows(const AddedRows& of, const std::int64_t* numbers, const float* from, float* to);
void add_rows(const AddedRows& of, const std::int64_t* numbers, const double* from, double* to);

}  // namespace ddl
