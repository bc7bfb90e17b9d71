#pragma once

#include <string>
#include <vector>

#include "ddl/report/run_view.h"

namespace ddl {

/// The results table, the same on the terminal and on the page.
struct Column {
  std::string_view title, unit;
  bool is_number = true;
};
inline constexpr std::size_t kColumns = 10;
const std::array<Column, kColumns>& columns();

/// One cell per column; `-` where the record does not know.
std::array<std::string, kColumns> cells(const RunView& run);

/// `8,050 to 8,190`; empty where the throughput has no interval.
std::string interval_text(const RunView& run);

}  // namespace ddl
