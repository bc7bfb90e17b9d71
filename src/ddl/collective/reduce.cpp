#include "ddl/collective/reduce.h"

#include <cstring>

#include "ddl/core/text.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ddl/collective/reduce.cpp"
// Three steps of what x86 processors have are enough: every further target costs as much to compile as all the rest.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ddl::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
struct Native {
  using Stored = T;
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  static constexpr bool kInteger = !hwy::IsFloat<T>();
  static V load(const std::byte* at) { return hn::LoadU(D(), reinterpret_cast<const T*>(at)); }
  static void store(V v, std::byte* at) { hn::StoreU(v, D(), reinterpret_cast<T*>(at)); }
  static V round(V v) { return v; }
};

struct Fp16 {
  using Stored = std::uint16_t;
  using D = hn::ScalableTag<float>;
  using V = hn::Vec<D>;
  using Half = hn::Rebind<hwy::float16_t, D>;
  static constexpr bool kInteger = false;
  static V load(const std::byte* at) { return widened(hn::LoadU(Half(), reinterpret_cast<const hwy::float16_t*>(at))); }
  static void store(V v, std::byte* at) { hn::StoreU(narrowed(v), Half(), reinterpret_cast<hwy::float16_t*>(at)); }
  static V round(V v) { return widened(narrowed(v)); }

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  // Highway's own, where there is no instruction, cut off instead of rounding, and take NaN for a number.
  using Words = hn::RebindToUnsigned<D>;
  using Halves = hn::Rebind<std::uint16_t, Words>;

  static V widened(hn::Vec<Half> half) {
    const Words words;
    const auto bits = hn::PromoteTo(words, hn::BitCast(Halves(), half));
    const auto magnitude = hn::ShiftLeft<13>(hn::And(bits, hn::Set(words, 0x7fffu)));
    // A product with a power of two sets the bias right, below 2^-14 too; what is above all numbers stays above.
    const auto value = hn::Mul(hn::BitCast(D(), magnitude), hn::Set(D(), 0x1p112F));
    const auto beyond = hn::BitCast(D(), hn::Or(magnitude, hn::Set(words, 0x7f800000u)));
    const auto either = hn::IfThenElse(hn::Ge(value, hn::Set(D(), 65536.0F)), beyond, value);
    return hn::BitCast(D(), hn::Or(hn::BitCast(words, either), hn::ShiftLeft<31>(hn::ShiftRight<15>(bits))));
  }

  /// To nearest, ties to even.
  static hn::Vec<Half> narrowed(V v) {
    const Words words;
    const auto bits = hn::BitCast(words, v);
    const auto magnitude = hn::And(bits, hn::Set(words, 0x7fffffffu));
    // The exponent's bias is another; what falls off is added to, so that it carries where it is more than half.
    const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(words, 1u));
    const auto normal = hn::ShiftRight<13>(hn::Add(hn::Add(magnitude, hn::Set(words, 0xc8000fffu)), odd));
    // Below 2^-14: an addition to 0.5 shifts and rounds.
    const auto small = hn::Sub(hn::BitCast(words, hn::Add(hn::BitCast(D(), magnitude), hn::Set(D(), 0.5F))), hn::Set(words, 0x3f000000u));
    const auto nan = hn::Or(hn::Set(words, 0x7e00u), hn::And(hn::ShiftRight<13>(magnitude), hn::Set(words, 0x3ffu)));
    auto half = hn::IfThenElse(hn::RebindMask(words, hn::Lt(hn::BitCast(D(), magnitude), hn::Set(D(), 0x1p-14F))), small, normal);
    half = hn::IfThenElse(hn::RebindMask(words, hn::Ge(hn::BitCast(D(), magnitude), hn::Set(D(), 65536.0F))), hn::Set(words, 0x7c00u), half);
    half = hn::IfThenElse(hn::RebindMask(words, hn::IsNaN(v)), nan, half);
    half = hn::Or(half, hn::ShiftLeft<15>(hn::ShiftRight<31>(bits)));
    return hn::BitCast(Half(), hn::TruncateTo(Halves(), half));
  }
#else
  static V widened(hn::Vec<Half> half) { return hn::PromoteTo(D(), half); }
  static hn::Vec<Half> narrowed(V v) { return hn::DemoteTo(Half(), v); }
#endif
};

struct Bf16 {
  using Stored = std::uint16_t;
  using D = hn::ScalableTag<float>;
  using V = hn::Vec<D>;
  using Words = hn::RebindToUnsigned<D>;
  using Halves = hn::Rebind<std::uint16_t, Words>;
  static constexpr bool kInteger = false;
  static V load(const std::byte* at) {
    const auto halves = hn::LoadU(Halves(), reinterpret_cast<const std::uint16_t*>(at));
    return hn::BitCast(D(), hn::ShiftLeft<16>(hn::PromoteTo(Words(), halves)));
  }
  /// To nearest, ties to even; a NaN stays one.
  static hn::Vec<Words> rounded(V v) {
    const Words words;
    const auto bits = hn::BitCast(words, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1u));
    const auto nearest = hn::Add(bits, hn::Add(odd, hn::Set(words, 0x7fffu)));
    const auto quiet = hn::Or(bits, hn::Set(words, 0x400000u));
    return hn::IfThenElse(hn::RebindMask(words, hn::IsNaN(v)), quiet, nearest);
  }
  static void store(V v, std::byte* at) {
    hn::StoreU(hn::TruncateTo(Halves(), hn::ShiftRight<16>(rounded(v))), Halves(), reinterpret_cast<std::uint16_t*>(at));
  }
  static V round(V v) { return hn::BitCast(D(), hn::ShiftLeft<16>(hn::ShiftRight<16>(rounded(v)))); }
};

struct Sum {
  template <typename V>
  static V apply(V a, V b) { return hn::Add(a, b); }
};
struct Max {
  template <typename V>
  static V apply(V a, V b) {
    if constexpr (hwy::IsFloat<hn::TFromV<V>>())
      return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(b)), b, a);
    else
      return hn::Max(a, b);
  }
};
struct Min {
  template <typename V>
  static V apply(V a, V b) {
    if constexpr (hwy::IsFloat<hn::TFromV<V>>())
      return hn::IfThenElse(hn::Or(hn::Lt(b, a), hn::IsNaN(b)), b, a);
    else
      return hn::Min(a, b);
  }
};

template <typename Type>
constexpr std::size_t lanes() { return hn::MaxLanes(typename Type::D()); }

/// What a factor or divisor becomes on the way into a vector; those of integers are one.
template <typename Type>
typename Type::V spread(double value) {
  using T = hn::TFromD<typename Type::D>;
  return hn::Set(typename Type::D(), static_cast<T>(value));
}

template <typename Type>
typename Type::V divided(typename Type::V v, double divisor) {
  if constexpr (Type::kInteger) {
    using T = typename Type::Stored;
    alignas(64) T values[lanes<Type>()];
    hn::Store(v, typename Type::D(), values);
    for (T& value : values) value = static_cast<T>(value / static_cast<T>(divisor));
    return hn::Load(typename Type::D(), values);
  } else {
    return hn::Div(v, spread<Type>(divisor));
  }
}

template <typename Type>
typename Type::V weighted(typename Type::V v, typename Type::V factor) {
  if constexpr (Type::kInteger)
    return v;
  else
    return hn::Mul(v, factor);
}

/// Calls body(byte offset) for every whole vector, and for the rest with `tail`, which works on copies.
template <typename Type, typename Body, typename Tail>
HWY_INLINE void each_vector(std::size_t elements, const Body& body, const Tail& tail) {
  constexpr std::size_t size = sizeof(typename Type::Stored);
  constexpr std::size_t n = lanes<Type>();
  std::size_t i = 0;
  for (; i + n <= elements; i += n) body(i * size);
  if (i < elements) tail(i * size, (elements - i) * size);
}

/// A vector's worth of memory, for what does not fill one.
template <typename Type>
struct Copy {
  alignas(64) std::byte bytes[lanes<Type>() * sizeof(typename Type::Stored)] = {};
};

template <typename Type, typename Op, bool kScaled>
void pair(std::byte* HWY_RESTRICT ours, const std::byte* HWY_RESTRICT theirs, std::size_t elements, const Scaling& scaling) {
  const auto mine = spread<Type>(scaling.ours), other = spread<Type>(scaling.theirs);
  const bool weighs = scaling.ours != 1 || scaling.theirs != 1;
  const bool divides = scaling.divisor != 1;
  const auto one = [&](std::byte* into, const std::byte* a_at, const std::byte* b_at) HWY_ATTR {
    auto a = Type::load(a_at), b = Type::load(b_at);
    if constexpr (kScaled)
      if (weighs) {
        a = Type::round(weighted<Type>(a, mine));
        b = Type::round(weighted<Type>(b, other));
      }
    auto result = Op::apply(a, b);
    if constexpr (kScaled)
      if (divides) result = divided<Type>(result, static_cast<double>(scaling.divisor));
    Type::store(result, into);
  };
  each_vector<Type>(
      elements, [&](std::size_t at) HWY_ATTR { one(ours + at, ours + at, theirs + at); },
      [&](std::size_t at, std::size_t bytes) HWY_ATTR {
        Copy<Type> a, b;
        std::memcpy(a.bytes, ours + at, bytes);
        std::memcpy(b.bytes, theirs + at, bytes);
        one(a.bytes, a.bytes, b.bytes);
        std::memcpy(ours + at, a.bytes, bytes);
      });
}

/// `kCount` places, or `count` where that is 0.
template <typename Type, typename Op, bool kScaled, int kCount>
void all(std::byte* const* places, const double* factors, int count, std::size_t elements, std::int64_t divisor) {
  const int many = kCount != 0 ? kCount : count;
  // In registers, where there are few.
  std::byte* kept[kCount != 0 ? kCount : 1];
  for (int k = 0; k < kCount; ++k) kept[k] = places[k];
  std::byte* const* at_place = kCount != 0 ? kept : places;
  const auto reduce = [&](const auto& load, const auto& store) HWY_ATTR {
    auto sum = load(0);
    if constexpr (kScaled)
      if (factors != nullptr) sum = weighted<Type>(sum, spread<Type>(factors[0]));
    for (int k = 1; k < many; ++k) {
      auto next = load(k);
      if constexpr (kScaled)
        if (factors != nullptr) next = weighted<Type>(next, spread<Type>(factors[k]));
      sum = Op::apply(sum, next);
    }
    if constexpr (kScaled)
      if (divisor != 1) sum = divided<Type>(sum, static_cast<double>(divisor));
    for (int k = 0; k < many; ++k) store(at_place[k], sum);
  };
  each_vector<Type>(
      elements,
      [&](std::size_t at) HWY_ATTR {
        reduce([&](int k) HWY_ATTR { return Type::load(at_place[k] + at); },
               [&](std::byte* to, typename Type::V v) HWY_ATTR { Type::store(v, to + at); });
      },
      [&](std::size_t at, std::size_t bytes) HWY_ATTR {
        reduce(
            [&](int k) HWY_ATTR {
              Copy<Type> copy;
              std::memcpy(copy.bytes, at_place[k] + at, bytes);
              return Type::load(copy.bytes);
            },
            [&](std::byte* to, typename Type::V v) HWY_ATTR {
              Copy<Type> copy;
              Type::store(v, copy.bytes);
              std::memcpy(to + at, copy.bytes, bytes);
            });
      });
}

template <typename Type>
void scale(std::byte* into, const std::byte* from, std::size_t elements, double factor, std::int64_t divisor) {
  const auto by = spread<Type>(factor);
  const auto one = [&](std::byte* to, const std::byte* at) HWY_ATTR {
    auto v = Type::load(at);
    if (factor != 1) v = weighted<Type>(v, by);
    if (divisor != 1) v = divided<Type>(v, static_cast<double>(divisor));
    Type::store(v, to);
  };
  each_vector<Type>(
      elements, [&](std::size_t at) HWY_ATTR { one(into + at, from + at); },
      [&](std::size_t at, std::size_t bytes) HWY_ATTR {
        Copy<Type> copy;
        std::memcpy(copy.bytes, from + at, bytes);
        one(copy.bytes, copy.bytes);
        std::memcpy(into + at, copy.bytes, bytes);
      });
}

/// Calls body(type tag) with the tag of `type`.
template <typename Body>
void with_type(ElementType type, const Body& body) {
  switch (type) {
    case ElementType::fp32: return body(Native<float>());
    case ElementType::fp64: return body(Native<double>());
    case ElementType::int32: return body(Native<std::int32_t>());
    case ElementType::int64: return body(Native<std::int64_t>());
    case ElementType::fp16: return body(Fp16());
    case ElementType::bf16: return body(Bf16());
  }
}

template <typename Type, typename Op, bool kScaled>
void all_of(std::byte* const* places, const double* factors, int count, std::size_t elements, std::int64_t divisor) {
  switch (count) {
    case 2: return all<Type, Op, kScaled, 2>(places, factors, count, elements, divisor);
    case 3: return all<Type, Op, kScaled, 3>(places, factors, count, elements, divisor);
    case 4: return all<Type, Op, kScaled, 4>(places, factors, count, elements, divisor);
    default: return all<Type, Op, kScaled, 0>(places, factors, count, elements, divisor);
  }
}

void ReduceInto(ReduceOp op, ElementType type, std::byte* ours, const std::byte* theirs, std::size_t elements,
                const Scaling& scaling) {
  const bool scaled = scaling.ours != 1 || scaling.theirs != 1 || scaling.divisor != 1;
  with_type(type, [&](auto tag) {
    using Type = decltype(tag);
    switch (op) {
      case ReduceOp::max: return pair<Type, Max, false>(ours, theirs, elements, scaling);
      case ReduceOp::min: return pair<Type, Min, false>(ours, theirs, elements, scaling);
      default:
        return scaled ? pair<Type, Sum, true>(ours, theirs, elements, scaling)
                      : pair<Type, Sum, false>(ours, theirs, elements, scaling);
    }
  });
}

void ReduceAll(ReduceOp op, ElementType type, std::byte* const* places, const double* factors, int count, std::size_t elements,
               std::int64_t divisor) {
  const bool scaled = factors != nullptr || divisor != 1;
  with_type(type, [&](auto tag) {
    using Type = decltype(tag);
    switch (op) {
      case ReduceOp::max: return all_of<Type, Max, false>(places, factors, count, elements, divisor);
      case ReduceOp::min: return all_of<Type, Min, false>(places, factors, count, elements, divisor);
      default:
        return scaled ? all<Type, Sum, true, 0>(places, factors, count, elements, divisor)
                      : all_of<Type, Sum, false>(places, factors, count, elements, divisor);
    }
  });
}

void ScaleInto(ElementType type, std::byte* into, const std::byte* from, std::size_t elements, double factor,
               std::int64_t divisor) {
  with_type(type, [&](auto tag) { scale<decltype(tag)>(into, from, elements, factor, divisor); });
}

template <typename To, typename From>
void convert(std::byte* into, const std::byte* from, std::size_t elements) {
  constexpr std::size_t to_size = sizeof(typename To::Stored), from_size = sizeof(typename From::Stored);
  each_vector<To>(
      elements, [&](std::size_t at) HWY_ATTR { To::store(From::load(from + at / to_size * from_size), into + at); },
      [&](std::size_t at, std::size_t bytes) HWY_ATTR {
        Copy<From> source;
        Copy<To> target;
        std::memcpy(source.bytes, from + at / to_size * from_size, bytes / to_size * from_size);
        To::store(From::load(source.bytes), target.bytes);
        std::memcpy(into + at, target.bytes, bytes);
      });
}

void Narrow(ElementType half, std::byte* into, const float* from, std::size_t elements) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(from);
  half == ElementType::fp16 ? convert<Fp16, Native<float>>(into, bytes, elements) : convert<Bf16, Native<float>>(into, bytes, elements);
}

void Widen(ElementType half, float* into, const std::byte* from, std::size_t elements) {
  auto* const bytes = reinterpret_cast<std::byte*>(into);
  half == ElementType::fp16 ? convert<Native<float>, Fp16>(bytes, from, elements) : convert<Native<float>, Bf16>(bytes, from, elements);
}

}  // namespace
}  // namespace ddl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ddl {

HWY_EXPORT(ReduceInto);
HWY_EXPORT(ReduceAll);
HWY_EXPORT(ScaleInto);
HWY_EXPORT(Narrow);
HWY_EXPORT(Widen);

void reduce_into(ReduceOp op, ElementType type, std::byte* ours, const std::byte* theirs, std::size_t elements,
                 const Scaling& scaling) {
  HWY_DYNAMIC_DISPATCH(ReduceInto)(op, type, ours, theirs, elements, scaling);
}

void reduce_all(ReduceOp op, ElementType type, std::byte* const* places, const double* factors, int count, std::size_t elements,
                std::int64_t divisor) {
  if (count == 1) return scale_into(type, places[0], places[0], elements, factors != nullptr ? factors[0] : 1, divisor);
  HWY_DYNAMIC_DISPATCH(ReduceAll)(op, type, places, factors, count, elements, divisor);
}

void scale_into(ElementType type, std::byte* into, const std::byte* from, std::size_t elements, double factor,
                std::int64_t divisor) {
  if (factor != 1 || divisor != 1)
    HWY_DYNAMIC_DISPATCH(ScaleInto)(type, into, from, elements, factor, divisor);
  else if (into != from && elements != 0)
    std::memcpy(into, from, elements * size_of(type));
}

void narrow(ElementType half, std::byte* into, const float* from, std::size_t elements) {
  HWY_DYNAMIC_DISPATCH(Narrow)(half, into, from, elements);
}

void widen(ElementType half, float* into, const std::byte* from, std::size_t elements) {
  HWY_DYNAMIC_DISPATCH(Widen)(half, into, from, elements);
}

std::vector<std::string> vector_targets() {
  std::vector<std::string> names;
  for (const auto target : hwy::SupportedAndGeneratedTargets()) names.emplace_back(hwy::TargetName(target));
  return names;
}

void use_vector_target(std::string_view name) {
  hwy::SetSupportedTargetsForTest(0);
  std::int64_t wanted = 0;
  for (const auto target : hwy::SupportedAndGeneratedTargets())
    if (name == hwy::TargetName(target)) wanted = target;
  if (wanted == 0 && !name.empty())
    throw Error(Code::invalid_argument, fmt::format("[collective] no code for vector instructions '{}'; expected one of {}", name, join(vector_targets(), ", ")));
  hwy::SetSupportedTargetsForTest(wanted);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace ddl
#endif  // HWY_ONCE
