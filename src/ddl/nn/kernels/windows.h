#pragma once

#include <cstddef>
#include <cstdint>

#include "ddl/core/bf16.h"

namespace ddl {

/// How a window slides over maps that lie channels last, [samples, height, width, channels], and how many places it takes.
struct Windows {
  std::int64_t samples, height, width, channels;
  std::int64_t kernel_height, kernel_width, stride_height, stride_width, padding_height, padding_width;
  std::int64_t places_high, places_wide;

  std::int64_t places() const { return samples * places_high * places_wide; }
  std::int64_t seen() const { return kernel_height * kernel_width * channels; }  ///< elements, from one place
  bool are_pixels() const { return seen() == channels && places() == samples * height * width; }  ///< each sees one pixel, in order
};

/// What is seen from each place, [places, kernel height, kernel width, channels], 0 where there is padding. Of elements of any type.
void unfold_windows(const Windows& windows, std::size_t element_bytes, const void* maps, void* seen);
/// The other way: each element of a map is the sum of what stands for it in `seen`, in the order of the window's rows and columns.
void fold_windows(const Windows& windows, const float* seen, float* maps);
void fold_windows(const Windows& windows, const double* seen, double* maps);
void fold_windows(const Windows& windows, const Bf16* seen, Bf16* maps);

}  // namespace ddl
