#include <algorithm>
#include <bit>
#include <limits>

#include "ddl/collective/compression/compressions.h"
#include "ddl/collective/compression/kernels.h"
#include "ddl/core/random.h"

namespace ddl {
namespace {

/// A uniformly random set of so many of 0 … n-1, in ascending order. Draws once per member.
/// Source: Floyd's algorithm, Bentley & Floyd 1987, Programming Pearls: A Sample of Brilliance.
void draw_set(std::size_t n, Random random, std::span<std::size_t> into, std::vector<std::uint64_t>& marks) {
  marks.assign((n + 63) / 64, 0);
  const auto mark = [&](std::size_t i) {
    const std::uint64_t bit = std::uint64_t{1} << (i % 64);
    const bool first = (marks[i / 64] & bit) == 0;
    marks[i / 64] |= bit;
    return first;
  };
  for (std::size_t i = n - into.size(); i < n; ++i)
    if (!mark(random.below(i + 1))) mark(i);
  auto next = into.begin();
  for (std::size_t word = 0; word < marks.size(); ++word)
    for (std::uint64_t bits = marks[word]; bits != 0; bits &= bits - 1)
      *next++ = word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
}

/// C(x) = k elements of x that seed, bucket and call alone decide, and 0 elsewhere; k = ratio*n. All ranks draw the same,
/// so that no index travels and the values can be added on the way. A rank with a NaN or an infinity anywhere sends NaNs.
/// Error:   E|x - C(x)|^2 = (1 - k/n) |x|^2, kept for the next call.
/// Bytes:   an all-reduce of k elements.
/// Source:  Stich, Cordonnier & Jaggi 2018, Sparsified SGD with Memory, definitions 2.1 and 2.2; places from a seed instead
///          of on the wire: Konecny et al. 2016, Federated Learning: Strategies for Improving Communication Efficiency.
template <typename T>
class RandomK final : public Compressor<T> {
 public:
  RandomK(std::size_t elements, std::size_t kept, std::uint64_t seed) : elements_(elements), seed_(seed), places_(kept), wire_(kept) {}

  void all_reduce(const CompressionStep& step, std::span<const T> input, std::span<T> transmitted, std::span<T> result) override {
    draw_set(elements_, Random(seed_, step.number), places_, marks_);
    const bool finite = all_finite(input);
    for (std::size_t i = 0; i < places_.size(); ++i) wire_[i] = finite ? input[places_[i]] : std::numeric_limits<T>::quiet_NaN();
    spread(transmitted);
    step.group.run({Goal::all_reduce, ReduceOp::sum, step.algorithm}, as_buffer(std::span(wire_)));
    spread(result);
  }

  std::vector<Transfer> transfers(int) const override { return {{Goal::all_reduce, kTypeOf<T>, wire_.size()}}; }

 private:
  void spread(std::span<T> into) const {
    std::fill(into.begin(), into.end(), T{0});
    for (std::size_t i = 0; i < places_.size(); ++i) into[places_[i]] = wire_[i];
  }

  std::size_t elements_;
  std::uint64_t seed_;
  std::vector<std::size_t> places_;
  std::vector<T> wire_;
  std::vector<std::uint64_t> marks_;
};

}  // namespace

template <typename T>
std::unique_ptr<Compressor<T>> random_k_compressor(const Spec& spec, const CompressedBuffer& buffer) {
  return std::make_unique<RandomK<T>>(buffer.elements, kept_elements(spec, buffer.elements), buffer.seed);
}
template std::unique_ptr<Compressor<float>> random_k_compressor(const Spec&, const CompressedBuffer&);
template std::unique_ptr<Compressor<double>> random_k_compressor(const Spec&, const CompressedBuffer&);

}  // namespace ddl
