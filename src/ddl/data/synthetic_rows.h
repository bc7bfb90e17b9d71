#pragma once

#include <cstdint>
#include <span>

namespace ddl {

/// What pixels of a row are made of.
struct RowOfImage {
  int gain = 0;   ///< of the pattern, in grey levels
  int noise = 0;  ///< of the sum of two random bytes less 255, in 256ths of a grey level
  int level = 0;  ///< grey level where neither is
};

// Rows of made-up images, pixel by pixel the same on every processor. One thread makes 64 photographs of 224 pixels a side for each step of a GPU that trains on them in 18 ms: it has to keep up.

/// Reads `cells`, a power of two of them and the first once more, as a closed line from place `from` on, in 65536ths of a cell, each value `step` further than the one before; in between along the straight line. Values below 2^14.
void stretch(std::span<const int> cells, std::uint32_t from, std::uint32_t step, std::span<std::int16_t> values);

/// level + (gain pattern + noise n) / 256, rounded down and cut to a byte, n the sum of two random bytes less 255: those of `draws`, four pixels from each, the lowest 16 bits first.
void put_pixels(const RowOfImage& how, const std::int16_t* pattern, std::span<const std::uint64_t> draws, std::span<std::uint8_t> row);

}  // namespace ddl
