#include "ddl/nn/kernels/dropout.h"

#include "ddl/core/clones.h"

namespace ddl {
namespace {

/// The finaliser of MurmurHash3 (Appleby 2011): 32-bit multiplications, which vector units have.
DDL_INLINE std::uint32_t mix(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x85ebca6bU;
  x = (x ^ (x >> 13)) * 0xc2b2ae35U;
  return x ^ (x >> 16);
}

template <typename T>
DDL_INLINE void drop(const T* in, T* out, std::uint32_t n, std::uint64_t key, std::uint32_t threshold, T factor, std::uint32_t first) {
  const auto low = static_cast<std::uint32_t>(key), high = static_cast<std::uint32_t>(key >> 32);
  for (std::uint32_t i = 0; i < n; ++i) out[i] = mix(mix((first + i) ^ low) + high) < threshold ? T{0} : in[i] * factor;
}

}  // namespace

DDL_CLONES void drop_elements(const float* in, float* out, std::uint32_t n, std::uint64_t key, std::uint32_t threshold, float factor, std::uint32_t first) {
  drop(in, out, n, key, threshold, factor, first);
}
DDL_CLONES void drop_elements(const double* in, double* out, std::uint32_t n, std::uint64_t key, std::uint32_t threshold, double factor, std::uint32_t first) {
  drop(in, out, n, key, threshold, factor, first);
}

}  // namespace ddl
