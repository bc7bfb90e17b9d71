#pragma once

#include <cstdint>

#include "ddl/core/bf16.h"
#include "ddl/nn/kernels/windows.h"

namespace ddl {

// The most that a window sees, with or without a ReLU before it, which is the same as one behind it. What goes back needs to know where that was alone: its number in the window, row by row, a byte; so windows have at
// most kPlacesOfAWindow places. NaN is more than any number, as in ATen.

inline constexpr std::int64_t kPlacesOfAWindow = 255;
/// Nothing goes back to where the most was not above 0 before the ReLU.
inline constexpr std::uint8_t kNowhere = 255;

/// Maps that lie channels last. out, where: [places, channels]; `where` may be null.
void max_pool_pixels(const Windows& windows, const float* maps, bool rectifies, float* out, std::uint8_t* where);
void max_pool_pixels(const Windows& windows, const double* maps, bool rectifies, double* out, std::uint8_t* where);
void max_pool_pixels(const Windows& windows, const Bf16* maps, bool rectifies, Bf16* out, std::uint8_t* where);
/// The gradient of maps: to each of their elements the sum over the windows of which it was the most; in bf16 rounded after each.
void max_pool_pixels_backward(const Windows& windows, const float* gradient, const std::uint8_t* where, float* of_maps);
void max_pool_pixels_backward(const Windows& windows, const double* gradient, const std::uint8_t* where, double* of_maps);
void max_pool_pixels_backward(const Windows& windows, const Bf16* gradient, const std::uint8_t* where, Bf16* of_maps);

/// The same of maps that lie one after the other, [samples, channels, height, width].
void max_pool_planes(const Windows& windows, const float* maps, bool rectifies, float* out, std::uint8_t* where);
void max_pool_planes(const Windows& windows, const double* maps, bool rectifies, double* out, std::uint8_t* where);
void max_pool_planes(const Windows& windows, const Bf16* maps, bool rectifies, Bf16* out, std::uint8_t* where);
void max_pool_planes_backward(const Windows& windows, const float* gradient, const std::uint8_t* where, float* of_maps);
void max_pool_planes_backward(const Windows& windows, const double* gradient, const std::uint8_t* where, double* of_maps);
void max_pool_planes_backward(const Windows& windows, const Bf16* gradient, const std::uint8_t* where, Bf16* of_maps);

}  // namespace ddl
