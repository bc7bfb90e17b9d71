#pragma once

#include <cstdint>

namespace ddl {

/// out[i] = in[i] * factor where element i is kept, else 0. An element is dropped when 32 bits drawn by (key, i) lie below
/// `threshold`; nothing else decides, so backward draws the same again. `out` may be `in`. They are elements `first` to first + n of their
/// sample, which has fewer than 2^32.
void drop_elements(const float* in, float* out, std::uint32_t n, std::uint64_t key, std::uint32_t threshold, float factor, std::uint32_t first = 0);
void drop_elements(const double* in, double* out, std::uint32_t n, std::uint64_t key, std::uint32_t threshold, double factor, std::uint32_t first = 0);

}  // namespace ddl
