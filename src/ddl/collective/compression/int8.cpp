#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ddl/collective/compression/compressions.h"
#include "ddl/core/random.h"

namespace ddl {
namespace {

constexpr int kLevels = 127;

/// C(x) = s*q, q = floor(x/s + u) in [-127, 127], s = max over ranks and elements of |x| / 127; u is drawn uniformly from
/// [0, 1) for every element, which makes E[C(x)] = x, or is 1/2 (rounding=nearest).
/// Error:   per element below s, with variance at most s^2/4; with rounding=nearest at most s/2, but not right on average.
/// Sum:     of integers, exact: up to 3 ranks gather all q and add them in 32 bits; more ranks each gather one slice of
///          every q (all-to-all), add it up, and pass the sum around in 16 bits, which hold 258 ranks' 127, or else in 32.
/// Bytes:   an all-reduce of one element, then (P-1)*n for P <= 3, else about 3*(P-1)/P*n (5*(P-1)/P*n beyond 258 ranks),
///          where a ring of fp32 sends 8*(P-1)/P*n. Slices are rounded up to four elements.
/// Source:  Alistarh et al. 2017, QSGD, section 3.1, with the maximum for a norm as in their section 5; the scale shared by
///          all ranks, so that integers can be added, as in Mishchenko et al. 2021, IntSGD.
template <typename T>
class Int8 final : public Compressor<T> {
 public:
  Int8(std::size_t elements, bool stochastic, std::uint64_t seed) : elements_(elements), stochastic_(stochastic), seed_(seed) {}

  void all_reduce(const CompressionStep& step, std::span<const T> input, std::span<T> transmitted, std::span<T> result) override {
    T largest = 0;
    for (const T value : input)
      if (const T size = std::abs(value); !(size <= largest)) largest = std::isnan(largest) ? largest : size;
    step.group.run({Goal::all_reduce, ReduceOp::max, step.algorithm}, as_buffer(std::span(&largest, 1)));
    if (!std::isfinite(largest)) {
      // No scale holds these numbers; every rank sees that alike.
      std::fill(transmitted.begin(), transmitted.end(), std::numeric_limits<T>::quiet_NaN());
      std::fill(result.begin(), result.end(), std::numeric_limits<T>::quiet_NaN());
      return;
    }
    const double scale = static_cast<double>(largest) / kLevels;
    const int ranks = step.group.size();
    const std::size_t slice = gathers_all(ranks) ? padded(elements_) : padded_slice(ranks);
    wire_.assign(slice * static_cast<std::size_t>(ranks), 0);
    // The others' places come before and after ours where all are gathered.
    std::int8_t* const mine = wire_.data() + (gathers_all(ranks) ? slice * static_cast<std::size_t>(step.group.rank()) : 0);
    quantise(input, scale, Random(seed_, step.number * static_cast<std::uint64_t>(ranks) + static_cast<std::uint64_t>(step.group.rank())), mine);
    for (std::size_t i = 0; i < elements_; ++i) transmitted[i] = static_cast<T>(scale * mine[i]);
    if (gathers_all(ranks)) {
      run(step, Goal::all_gather, wire_);
      sums_.resize(elements_);
      add_up(slice, ranks, elements_, sums_);
      for (std::size_t i = 0; i < elements_; ++i) result[i] = static_cast<T>(scale * sums_[i]);
    } else if (ranks <= kMostIn16Bits) {
      sum_slices<std::int16_t>(step, slice, scale, result);
    } else {
      sum_slices<std::int32_t>(step, slice, scale, result);
    }
  }

  std::vector<Transfer> transfers(int ranks) const override {
    const auto p = static_cast<std::size_t>(ranks);
    std::vector<Transfer> all{{Goal::all_reduce, ReduceOp::max, kTypeOf<T>, 1}};
    if (gathers_all(ranks)) {
      all.push_back({Goal::all_gather, ReduceOp::sum, ElementType::int32, padded(elements_) * p / 4});
    } else {
      all.push_back({Goal::all_to_all, ReduceOp::sum, ElementType::int32, padded_slice(ranks) * p / 4});
      all.push_back({Goal::all_gather, ReduceOp::sum, ElementType::int32, padded_slice(ranks) * p / (ranks <= kMostIn16Bits ? 2 : 1)});
    }
    return all;
  }

 private:
  static constexpr int kMostIn16Bits = std::numeric_limits<std::int16_t>::max() / kLevels;

  static bool gathers_all(int ranks) { return ranks <= 3; }
  // Bytes travel as whole words: a collective has no type for single ones.
  static std::size_t padded(std::size_t bytes) { return (bytes + 3) / 4 * 4; }
  std::size_t padded_slice(int ranks) const {
    const auto p = static_cast<std::size_t>(ranks);
    return padded((elements_ + p - 1) / p);
  }

  void quantise(std::span<const T> input, double scale, Random random, std::int8_t* into) const {
    if (scale == 0) return;  // all zero
    for (std::size_t i = 0; i < elements_; ++i) {
      const double level = std::floor(static_cast<double>(input[i]) / scale + (stochastic_ ? static_cast<double>(random.uniform()) : 0.5));
      into[i] = static_cast<std::int8_t>(std::clamp(level, -double{kLevels}, double{kLevels}));
    }
  }

  template <typename Word>
  static void run(const CompressionStep& step, Goal goal, std::vector<Word>& words) {
    step.group.run({goal}, {reinterpret_cast<std::byte*>(words.data()), words.size() * sizeof(Word) / 4, ElementType::int32});
  }

  /// into[i] = sum over ranks of what they have at place i of their slice.
  template <typename Sums>
  void add_up(std::size_t slice, int ranks, std::size_t count, Sums& into) const {
    std::fill_n(into.begin(), count, 0);
    for (int rank = 0; rank < ranks; ++rank) {
      const std::int8_t* const theirs = wire_.data() + slice * static_cast<std::size_t>(rank);
      for (std::size_t i = 0; i < count; ++i) into[i] = static_cast<std::decay_t<decltype(into[i])>>(into[i] + theirs[i]);
    }
  }

  template <typename Sum>
  void sum_slices(const CompressionStep& step, std::size_t slice, double scale, std::span<T> result) {
    const int ranks = step.group.size();
    run(step, Goal::all_to_all, wire_);
    std::vector<Sum> sums(wire_.size());
    std::span<Sum> mine = std::span(sums).subspan(slice * static_cast<std::size_t>(step.group.rank()), slice);
    add_up(slice, ranks, slice, mine);
    run(step, Goal::all_gather, sums);
    for (std::size_t i = 0; i < elements_; ++i) result[i] = static_cast<T>(scale * sums[i]);
  }

  std::size_t elements_;
  bool stochastic_;
  std::uint64_t seed_;
  std::vector<std::int8_t> wire_;
  std::vector<std::int32_t> sums_;
};

}  // namespace

template <typename T>
std::unique_ptr<Compressor<T>> int8_compressor(const Spec& spec, const CompressedBuffer& buffer) {
  const auto found = spec.options.find("rounding");
  const std::string rounding = found == spec.options.end() ? "stochastic" : found->second;
  const std::vector<std::string> known{"stochastic", "nearest"};
  if (std::find(known.begin(), known.end(), rounding) == known.end())
    throw Error(Code::invalid_argument, fmt::format("[compression] rounding of int8; got '{}'{}, expected one of: {}", rounding,
                                                    did_you_mean(rounding, known), join(known, " ")));
  return std::make_unique<Int8<T>>(buffer.elements, rounding == known[0], buffer.seed);
}
template std::unique_ptr<Compressor<float>> int8_compressor(const Spec&, const CompressedBuffer&);
template std::unique_ptr<Compressor<double>> int8_compressor(const Spec&, const CompressedBuffer&);

}  // namespace ddl
