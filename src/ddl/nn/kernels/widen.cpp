#include "ddl/nn/kernels/widen.h"

#include "ddl/core/clones.h"

namespace ddl {

DDL_CLONES void widen_elements(const Bf16* from, bool adds, float* to, std::int64_t elements) {
  const Bf16* const __restrict x = from;
  float* const __restrict y = to;
  if (adds)
    for (std::int64_t i = 0; i < elements; ++i) y[i] += x[i];
  else
    for (std::int64_t i = 0; i < elements; ++i) y[i] = x[i];
}

DDL_CLONES void narrow_elements(const float* from, Bf16* to, std::int64_t elements) { put(from, elements, to); }

}  // namespace ddl
