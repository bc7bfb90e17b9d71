#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ddl/collective/compression/compressions.h"
#include "ddl/collective/compression/kernels.h"
#include "ddl/core/random.h"

namespace ddl {
namespace {

constexpr int kLevels = 127;

/// Elements in 8 bits. Chunk by chunk, with s = max |x| / 127 over the chunk:
///     C(x) = s*q,  q = floor(x/s + u) in [-127, 127]
/// u is drawn uniformly from [0, 1), in 16 bits, for every element, which makes E[C(x)] = x to 2^-16 s, or is 1/2
/// (rounding=nearest). A chunk that holds a NaN or an infinity becomes NaNs.
/// Error:   per element below s, with variance at most s^2/4; at most s/2 where it is rounded to nearest, but then not
///          right on average. Where s is too small for a normal number, C(x) = 0.
/// Sum:     of what was decoded, in the elements' own type, in the order of ranks: nothing can overflow in 8 bits. Up to 2
///          ranks gather all of it. More ranks each gather one slice of everyone's (all-to-all), add it up, compress the
///          sum once more, and pass that around; what this second compression loses the slice's owner counts as its own.
/// Bytes:   with w(m) = 4*ceil(m/4) + sizeof(T)*ceil(m/chunk) for m elements: (P-1)*w(n) for P <= 2 or n = 1,
///          else 2*(P-1)*w(ceil(n/P)), about a quarter of a ring of fp32.
/// Source:  Alistarh et al. 2017, QSGD (in its variant with buckets and their maximum for a norm); compressing the sum as
///          well: Seide et al. 2014, 1-Bit Stochastic Gradient Descent; Tang et al. 2019, DoubleSqueeze.
template <typename T>
class Int8 final : public Compressor<T> {
 public:
  Int8(std::size_t elements, std::size_t chunk, bool stochastic, std::uint64_t seed)
      : elements_(elements), chunk_(chunk), stochastic_(stochastic), seed_(seed) {}

  void all_reduce(const CompressionStep& step, std::span<const T> input, std::span<T> transmitted, std::span<T> result) override {
    const auto ranks = static_cast<std::size_t>(step.group.size());
    const auto me = static_cast<std::size_t>(step.group.rank());
    Random random(seed_, step.number * ranks + me);
    const std::size_t slice = slice_of(step.group.size());
    wire_.assign(words(slice) * ranks, 0);
    const auto part = [&](std::size_t rank) { return reinterpret_cast<std::byte*>(wire_.data() + rank * words(slice)); };
    if (slice == elements_) {
      encode(input, part(me), random);
      decode(part(me), transmitted);
      step.group.run({Goal::all_gather}, as_buffer(std::span(wire_)));
      decode(part(0), result);
      for (std::size_t rank = 1; rank < ranks; ++rank) add(part(rank), result);
      return;
    }
    const auto of = [&](auto values, std::size_t rank) {
      const std::size_t begin = std::min(elements_, rank * slice);
      return values.subspan(begin, std::min(slice, elements_ - begin));
    };
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      encode(of(input, rank), part(rank), random);
      decode(part(rank), of(transmitted, rank));
    }
    step.group.run({Goal::all_to_all}, as_buffer(std::span(wire_)));
    const auto mine = of(result, me);
    decode(part(0), mine);
    for (std::size_t rank = 1; rank < ranks; ++rank) add(part(rank), mine);
    encode(std::span<const T>(mine), part(me), random);
    const auto counted = of(transmitted, me);
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = -mine[i];
    add(part(me), mine);  // what is lost by it
    for (std::size_t i = 0; i < mine.size(); ++i) counted[i] += mine[i];
    step.group.run({Goal::all_gather}, as_buffer(std::span(wire_)));
    for (std::size_t rank = 0; rank < ranks; ++rank) decode(part(rank), of(result, rank));
  }

  std::vector<Transfer> transfers(int ranks) const override {
    const std::size_t slice = slice_of(ranks);
    const Transfer gather{Goal::all_gather, ElementType::int32, words(slice) * static_cast<std::size_t>(ranks)};
    if (slice == elements_) return {gather};
    return {{Goal::all_to_all, gather.type, gather.elements}, gather};
  }

 private:
  std::size_t slice_of(int ranks) const {
    const auto p = static_cast<std::size_t>(ranks);
    return ranks <= 2 ? elements_ : (elements_ + p - 1) / p;
  }
  // A collective has no type for single bytes: they travel as words of four. All scales, then all levels.
  std::size_t words(std::size_t elements) const { return chunks(elements) * sizeof(T) / 4 + (elements + 3) / 4; }
  std::size_t chunks(std::size_t elements) const { return (elements + chunk_ - 1) / chunk_; }

  void encode(std::span<const T> from, std::byte* part, Random& random) const {
    auto* levels = reinterpret_cast<std::int8_t*>(part + chunks(from.size()) * sizeof(T));
    for (std::size_t at = 0; at < from.size(); at += chunk_, part += sizeof(T)) {
      const auto chunk = from.subspan(at, std::min(chunk_, from.size() - at));
      const T scale = scale_of(chunk);
      std::memcpy(part, &scale, sizeof(T));
      quantise(chunk, scale, levels + at, random);
    }
  }

  static T scale_of(std::span<const T> chunk) {
    const T largest = largest_magnitude(chunk);
    return std::isfinite(largest) ? largest / kLevels : std::numeric_limits<T>::quiet_NaN();
  }

  void quantise(std::span<const T> chunk, T scale, std::int8_t* into, Random& random) const {
    if (!(scale >= std::numeric_limits<T>::min())) {  // or a NaN, which no level takes away again
      std::fill_n(into, chunk.size(), std::int8_t{0});
      return;
    }
    std::uint16_t draws[kBlock];
    std::fill_n(draws, kBlock, std::uint16_t{1} << 15);
    for (std::size_t at = 0; at < chunk.size(); at += kBlock) {
      const std::size_t count = std::min(kBlock, chunk.size() - at);
      if (stochastic_)
        for (std::size_t i = 0; i < count; i += 4) {
          const std::uint64_t bits = random.bits();
          std::memcpy(draws + i, &bits, sizeof bits);
        }
      round_down(chunk.data() + at, 1 / scale, draws, count, into + at);
    }
  }

  static void round_down(const T* from, T levels, const std::uint16_t* draws, std::size_t count, std::int8_t* into) {
    constexpr T kMost = kLevels, kUnit = T{1} / 65536;
    constexpr int kAbove = 128;  // where all are above 0, cutting off is rounding down
    for (std::size_t i = 0; i < count; ++i) {
      T level = from[i] * levels;
      level = level < kMost ? level : kMost;
      level = level > -kMost ? level : -kMost;
      into[i] = static_cast<std::int8_t>(static_cast<int>(level + static_cast<T>(static_cast<int>(draws[i])) * kUnit + kAbove) - kAbove);
    }
  }

  template <bool kAdds>
  void decode(const std::byte* part, std::size_t count, T* into) const {
    const auto* levels = reinterpret_cast<const std::int8_t*>(part + chunks(count) * sizeof(T));
    for (std::size_t at = 0; at < count; at += chunk_, part += sizeof(T)) {
      T scale;
      std::memcpy(&scale, part, sizeof(T));
      const std::size_t end = std::min(count, at + chunk_);
      for (std::size_t i = at; i < end; ++i) into[i] = scale * static_cast<T>(static_cast<int>(levels[i])) + (kAdds ? into[i] : T{0});
    }
  }
  void decode(const std::byte* part, std::span<T> into) const { decode<false>(part, into.size(), into.data()); }
  void add(const std::byte* part, std::span<T> to) const { decode<true>(part, to.size(), to.data()); }

  static constexpr std::size_t kBlock = 1024;

  std::size_t elements_;
  std::size_t chunk_;  // elements
  bool stochastic_;
  std::uint64_t seed_;
  std::vector<std::int32_t> wire_;  // of each rank a part
};

}  // namespace

template <typename T>
std::unique_ptr<Compressor<T>> int8_compressor(const Spec& spec, const CompressedBuffer& buffer) {
  const bool stochastic = word_option(spec, "rounding", {"stochastic", "nearest"}, 0) == "stochastic";
  return std::make_unique<Int8<T>>(buffer.elements, bytes_option(spec, "chunk", 4096, sizeof(T)), stochastic, buffer.seed);
}
template std::unique_ptr<Compressor<float>> int8_compressor(const Spec&, const CompressedBuffer&);
template std::unique_ptr<Compressor<double>> int8_compressor(const Spec&, const CompressedBuffer&);

}  // namespace ddl
