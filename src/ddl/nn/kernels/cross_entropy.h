#pragma once

#include <cstdint>

#include "ddl/core/bf16.h"

namespace ddl {

/// Rows of logits, and the class that each is to be; rows of class `ignored` count nothing. With `smoothing`, that much of what is expected is spread evenly over all classes.
template <typename T>
struct CrossEntropy {
  const T* logits;
  const std::int64_t* expected;
  std::int64_t classes, ignored;
  double smoothing;
};

/// Of rows [first, last), one after the other: the loss, and the logarithm of the sum of exponentials as the largest logit and what comes on top, whose sum in fp32 would lose digits.
/// Numbers: all in fp32, whatever logits are of; exponentials to about one unit in the last place of fp32, summed in sixteen parts in fp32, those in fp64.
void cross_entropy_rows(const CrossEntropy<float>& of, std::int64_t first, std::int64_t last, float* log_sums, double* losses);
void cross_entropy_rows(const CrossEntropy<Bf16>& of, std::int64_t first, std::int64_t last, float* log_sums, double* losses);
/// The gradient of logits where the loss's own is `scale`.
void cross_entropy_gradient(const CrossEntropy<float>& of, std::int64_t first, std::int64_t last, const float* log_sums, float scale, float* gradient);
void cross_entropy_gradient(const CrossEntropy<Bf16>& of, std::int64_t first, std::int64_t last, const float* log_sums, float scale, Bf16* gradient);

}  // namespace ddl
