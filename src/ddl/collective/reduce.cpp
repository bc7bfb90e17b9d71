#include "ddl/collective/reduce.h"

#include <cstring>
#include <type_traits>

namespace ddl {
namespace {

// target_clones would pick a version with an ifunc, whose resolver runs before a sanitizer is ready; so the versions
// are picked here. The body is forced into each of them, to be vectorised for that target.

template <typename T>
using Wrapping = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;

struct Sum {
  template <typename T>
  [[gnu::always_inline]] static T apply(T a, T b, T) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
  }
};
struct SumThenDivide {
  template <typename T>
  [[gnu::always_inline]] static T apply(T a, T b, T divisor) {
    return static_cast<T>(Sum::apply(a, b, divisor) / divisor);
  }
};
struct Max {
  template <typename T>
  [[gnu::always_inline]] static T apply(T a, T b, T) {
    return a < b || b != b ? b : a;
  }
};
struct Min {
  template <typename T>
  [[gnu::always_inline]] static T apply(T a, T b, T) {
    return b < a || b != b ? b : a;
  }
};

template <typename Op, typename T>
[[gnu::always_inline]] inline void body(std::byte* __restrict ours, const std::byte* __restrict theirs, std::size_t elements,
                                        std::int64_t divisor) {
  const T by = static_cast<T>(divisor);
  for (std::size_t i = 0; i < elements; ++i) {
    // Through memcpy, since a message may begin anywhere; it compiles to an unaligned load.
    T a, b;
    std::memcpy(&a, ours + i * sizeof(T), sizeof(T));
    std::memcpy(&b, theirs + i * sizeof(T), sizeof(T));
    a = Op::apply(a, b, by);
    std::memcpy(ours + i * sizeof(T), &a, sizeof(T));
  }
}

template <typename Op, typename T>
void plain(std::byte* ours, const std::byte* theirs, std::size_t elements, std::int64_t divisor) {
  body<Op, T>(ours, theirs, elements, divisor);
}

#if defined(__x86_64__)
template <typename Op, typename T>
[[gnu::target("avx2")]] void avx2(std::byte* ours, const std::byte* theirs, std::size_t elements, std::int64_t divisor) {
  body<Op, T>(ours, theirs, elements, divisor);
}
template <typename Op, typename T>
[[gnu::target("avx512f,avx512dq,prefer-vector-width=512")]] void avx512(std::byte* ours, const std::byte* theirs,
                                                                        std::size_t elements, std::int64_t divisor) {
  body<Op, T>(ours, theirs, elements, divisor);
}
#endif

template <typename Op, typename T>
ReduceKernel best() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) return avx512<Op, T>;
  if (__builtin_cpu_supports("avx2")) return avx2<Op, T>;
#endif
  return plain<Op, T>;
}

template <typename Op>
ReduceKernel for_type(ElementType type) {
  switch (type) {
    case ElementType::fp32: return best<Op, float>();
    case ElementType::fp64: return best<Op, double>();
    case ElementType::int32: return best<Op, std::int32_t>();
    case ElementType::int64: return best<Op, std::int64_t>();
  }
  return nullptr;
}

}  // namespace

std::size_t size_of(ElementType type) {
  return type == ElementType::fp32 || type == ElementType::int32 ? 4 : 8;
}

ReduceKernel reduce_kernel(ReduceOp op, ElementType type, bool divides) {
  switch (op) {
    case ReduceOp::sum: return for_type<Sum>(type);
    case ReduceOp::average: return divides ? for_type<SumThenDivide>(type) : for_type<Sum>(type);
    case ReduceOp::max: return for_type<Max>(type);
    case ReduceOp::min: return for_type<Min>(type);
  }
  return nullptr;
}

}  // namespace ddl
