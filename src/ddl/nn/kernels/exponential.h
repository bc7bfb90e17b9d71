#pragma once

#include <bit>
#include <cstdint>

#include "ddl/core/clones.h"

namespace ddl {

/// e^x for x of at most 0, or a little more: 2^n e^r with |r| at most half of log 2, the polynomial of Cephes' expf (Moshier 1989). Of what is under the smallest normal number, that.
DDL_INLINE float exponential(float x) {
  constexpr float kLeast = -87.33654F, kOneOverLog2 = 1.44269504F, kLog2High = 0.693359375F, kLog2Low = -2.12194440e-4F;
  constexpr float kRounds = 12582912.0F;  // 1.5 * 2^23: the sum's last bits are the nearest whole number
  x = x < kLeast ? kLeast : x;
  const float shifted = x * kOneOverLog2 + kRounds, n = shifted - kRounds;
  const float r = (x - n * kLog2High) - n * kLog2Low;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = (p * r) * r + r + 1.0F;
  const auto power = (std::bit_cast<std::uint32_t>(shifted) + 127U) << 23U;
  return p * std::bit_cast<float>(power);
}

}  // namespace ddl
