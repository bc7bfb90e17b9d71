#include "ddl/train/sgd_kernel.h"

// Compiled with -O3 -ffp-contract=off (CMakeLists.txt).
#if defined(__x86_64__)
#define DDL_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define DDL_CLONES
#endif

namespace ddl {
namespace {

template <typename T>
[[gnu::always_inline]] inline void step(T* __restrict parameters, T* __restrict momenta, const T* __restrict gradients,
                                        std::size_t n, T learning_rate, T momentum, T weight_decay) {
  if (momenta == nullptr) {
    for (std::size_t i = 0; i < n; ++i)
      parameters[i] -= learning_rate * (gradients[i] + weight_decay * parameters[i]);
    return;
  }
  for (std::size_t i = 0; i < n; ++i) {
    momenta[i] = momentum * momenta[i] + (gradients[i] + weight_decay * parameters[i]);
    parameters[i] -= learning_rate * momenta[i];
  }
}

}  // namespace

DDL_CLONES void sgd_step(float* parameters, float* momenta, const float* gradients, std::size_t n, float learning_rate,
                         float momentum, float weight_decay) {
  step(parameters, momenta, gradients, n, learning_rate, momentum, weight_decay);
}
DDL_CLONES void sgd_step(double* parameters, double* momenta, const double* gradients, std::size_t n,
                         double learning_rate, double momentum, double weight_decay) {
  step(parameters, momenta, gradients, n, learning_rate, momentum, weight_decay);
}

}  // namespace ddl
