#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddl {

/// Numbers as people read them, the same on the terminal and on the page.

/// About three figures, thousands grouped: `8,123`, `52.3`, `0.874`.
std::string in_figures(double value);
/// `4.10 ms`, `812 ms`, `0.034 ms`: always milliseconds, so that a column compares.
std::string in_ms(double milliseconds);
/// A share of 1: `21 %`, `9.4 %`, `100 %`.
std::string in_percent(double share);
/// `1.62x`.
std::string in_times(double ratio);
/// `one` … `twelve`, then digits.
std::string in_words(int count);
/// `1 worker`, `2 workers`.
std::string counted(long long count, std::string_view noun);
/// `shm`, `shm and tcp`, `shm, tcp and mpi`.
std::string enumerated(const std::vector<std::string>& parts);
std::string capitalised(std::string text);

/// Columns that a terminal needs: code points, not bytes.
std::size_t display_width(std::string_view text);

}  // namespace ddl
