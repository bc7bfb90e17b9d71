#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "ddl/collective/compression/compressions.h"
#include "ddl/collective/compression/kernels.h"

namespace ddl {
namespace {

template <typename T>
auto order(T value) {
  return static_cast<std::make_unsigned_t<decltype(magnitude(value))>>(magnitude(value));
}

/// The k-th largest magnitude, and how many of those equal to it are among the k largest. By digits from the highest
/// down: a time in proportion to n, whatever the numbers are.
template <typename T>
auto kth_largest(std::span<const T> values, std::size_t k) {
  using Key = decltype(order(T{}));
  struct Found {
    Key key = 0;
    std::size_t equal = 0;
  };
  constexpr int kDigit = 11;  // 2^11 counters fit into the nearest cache
  Found found{0, k};
  Key settled = 0;
  for (int top = std::numeric_limits<Key>::digits; top > 0; top -= kDigit) {
    const int low = std::max(0, top - kDigit);
    const Key digit = (Key{1} << (top - low)) - 1;
    std::array<std::size_t, std::size_t{1} << kDigit> counts{};
    for (const T value : values)
      if (const Key key = order(value); (key & settled) == found.key) ++counts[static_cast<std::size_t>((key >> low) & digit)];
    auto at = static_cast<std::size_t>(digit);
    for (; found.equal > counts[at]; --at) found.equal -= counts[at];
    found.key |= static_cast<Key>(at) << low;
    settled |= digit << low;
  }
  return found;
}

/// C(x) = the k elements of largest magnitude, of equal ones those that come first, and 0 elsewhere; k = ratio*n.
/// Error:   |x - C(x)|^2 <= (1 - k/n) |x|^2, kept for the next call.
/// Bytes:   every rank's indices (4 bytes) and values, to all: (P-1)*k*(4 + sizeof(T)). Grows with P: a ring of fp32 sends
///          less from ratio*P = 1 on.
/// Source:  Aji & Heafield 2017, Sparse Communication for Distributed Gradient Descent (with the threshold found exactly);
///          Lin et al. 2018, Deep Gradient Compression; the bound: Stich, Cordonnier & Jaggi 2018, Sparsified SGD with
///          Memory, definitions 2.1 and 2.2.
template <typename T>
class TopK final : public Compressor<T> {
 public:
  TopK(std::size_t elements, std::size_t kept) : elements_(elements), kept_(kept) {
    if (elements > std::numeric_limits<std::uint32_t>::max())
      throw Error(Code::invalid_argument, fmt::format("[compression] top-k sends indices of 32 bits; got {} elements, expected below 2^32",
                                                      elements));
  }

  void all_reduce(const CompressionStep& step, std::span<const T> input, std::span<T> transmitted, std::span<T> result) override {
    const auto ranks = static_cast<std::size_t>(step.group.size());
    wire_.resize(words() * ranks);
    std::byte* const mine = part(static_cast<std::size_t>(step.group.rank()));
    select(input, mine);
    std::fill(transmitted.begin(), transmitted.end(), T{0});
    add(mine, transmitted);
    step.group.run({Goal::all_gather}, as_buffer(std::span(wire_)));
    std::fill(result.begin(), result.end(), T{0});
    for (std::size_t rank = 0; rank < ranks; ++rank) add(part(rank), result);
  }

  std::vector<Transfer> transfers(int ranks) const override {
    return {{Goal::all_gather, ElementType::int32, words() * static_cast<std::size_t>(ranks)}};
  }

 private:
  /// Of one rank's part: all indices, then all values.
  std::size_t words() const { return kept_ * (1 + sizeof(T) / 4); }
  std::byte* part(std::size_t rank) { return reinterpret_cast<std::byte*>(wire_.data() + rank * words()); }

  void select(std::span<const T> input, std::byte* into) const {
    auto [threshold, equal] = kth_largest(input, kept_);
    std::byte* values = into + 4 * kept_;
    for (std::size_t i = 0; i < input.size(); ++i) {
      const auto key = order(input[i]);
      if (key < threshold || (key == threshold && equal == 0)) continue;
      if (key == threshold) --equal;
      const auto index = static_cast<std::uint32_t>(i);
      std::memcpy(into, &index, 4);
      std::memcpy(values, &input[i], sizeof(T));
      into += 4;
      values += sizeof(T);
    }
  }

  void add(const std::byte* from, std::span<T> to) const {
    for (std::size_t i = 0; i < kept_; ++i) {
      std::uint32_t index = 0;
      T value = 0;
      std::memcpy(&index, from + 4 * i, 4);
      std::memcpy(&value, from + 4 * kept_ + sizeof(T) * i, sizeof(T));
      if (index >= elements_) throw Error(Code::corrupt, fmt::format("[top-k] a rank sent index {}; expected below {}", index, elements_));
      to[index] += value;
    }
  }

  std::size_t elements_;
  std::size_t kept_;
  std::vector<std::int32_t> wire_;
};

}  // namespace

template <typename T>
std::unique_ptr<Compressor<T>> top_k_compressor(const Spec& spec, const CompressedBuffer& buffer) {
  return std::make_unique<TopK<T>>(buffer.elements, kept_elements(spec, buffer.elements));
}
template std::unique_ptr<Compressor<float>> top_k_compressor(const Spec&, const CompressedBuffer&);
template std::unique_ptr<Compressor<double>> top_k_compressor(const Spec&, const CompressedBuffer&);

}  // namespace ddl
