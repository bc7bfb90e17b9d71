#pragma once

#include <cstddef>

namespace ddl {

/// One pass of Sgd::update over n contiguous elements; `momenta` may be null. The same bits on every x86-64: no
/// contraction into fused multiply-adds, whatever the vector width picked at run time.
void sgd_step(float* parameters, float* momenta, const float* gradients, std::size_t n, float learning_rate,
              float momentum, float weight_decay);
void sgd_step(double* parameters, double* momenta, const double* gradients, std::size_t n, double learning_rate,
              double momentum, double weight_decay);

}  // namespace ddl
