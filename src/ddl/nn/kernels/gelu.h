#pragma once

#include <cstdint>

#include "ddl/core/bf16.h"

namespace ddl {

// GELU by the normal distribution function, x P(x) (Hendrycks & Gimpel, Gaussian Error Linear Units, 2016), of n elements.
// P by formula 7.1.26 of Abramowitz & Stegun, within 7.5e-8 and some roundings of fp32; its exponential is the density's too, which the slope needs.

void gelu_elements(const float* in, float* out, std::int64_t n);
void gelu_elements(const Bf16* in, Bf16* out, std::int64_t n);
/// gradient * (P(x) + x P'(x)). `to` may be `gradient`.
void gelu_gradient(const float* in, const float* gradient, float* to, std::int64_t n);
void gelu_gradient(const Bf16* in, const Bf16* gradient, Bf16* to, std::int64_t n);

}  // namespace ddl
