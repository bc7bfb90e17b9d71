#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "ddl/collective/compression/compressions.h"
#include "ddl/core/random.h"

namespace ddl {
namespace {

/// In fp64, in an order that does not depend on the width of vectors.
template <typename T>
double dot(const T* a, const T* b, std::size_t n) {
  std::array<double, 8> sums{};
  std::size_t i = 0;
  for (; i + sums.size() <= n; i += sums.size())
    for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += static_cast<double>(a[i + k]) * static_cast<double>(b[i + k]);
  for (std::size_t k = 0; i < n; ++i, ++k) sums[k] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

template <typename T>
void add_multiple(T* to, double factor, const T* from, std::size_t n) {
  const T by = static_cast<T>(factor);
  for (std::size_t i = 0; i < n; ++i) to[i] += by * from[i];
}

/// Gram-Schmidt over columns of so many elements, one after the other in memory, each projected twice: once leaves them
/// askew where they are almost dependent (Giraud, Langou & Rozloznik 2005, "twice is enough"). A column that depends on
/// those before it becomes zero.
template <typename T>
void orthonormalise(std::span<T> columns, std::size_t length) {
  constexpr double kRounding = 8 * std::numeric_limits<T>::epsilon();
  for (std::size_t begin = 0; begin < columns.size(); begin += length) {
    T* const column = columns.data() + begin;
    const double before = std::sqrt(dot(column, column, length));
    for (int pass = 0; pass < 2; ++pass)
      for (std::size_t other = 0; other < begin; other += length)
        add_multiple(column, -dot(column, columns.data() + other, length), columns.data() + other, length);
    const double norm = std::sqrt(dot(column, column, length));
    // A NaN is not smaller than anything, and so stays one.
    const bool dependent = norm <= kRounding * before;
    for (std::size_t i = 0; i < length; ++i) column[i] = dependent ? T{0} : static_cast<T>(column[i] / norm);
  }
}

/// M, the buffer as a matrix of m x n, as P Q^T of rank r. Every call does one step of a power iteration for all ranks
/// together, from the Q of the call before:
///     P = sum over ranks of M Q;  orthonormalise P;  Q = sum over ranks of M^T P;  result = P Q^T.
/// What one rank transmits is C(M) = P P^T M, its part of the result. Q starts as random numbers that all ranks draw alike.
/// Exact for the sum where the sum's rank is at most r.
/// Error:   |M - C(M)| <= |M|, since P P^T is a projection; kept for the next call.
/// Bytes:   all-reduces of r*m and r*n elements. Where these are no fewer than the matrix has, it is sent as it is.
/// Source:  Vogels, Karimireddy & Jaggi 2019, PowerSGD, algorithms 1 and 2.
template <typename T>
class PowerSgd final : public Compressor<T> {
 public:
  PowerSgd(const CompressedBuffer& buffer, std::size_t rank) : elements_(buffer.elements), seed_(buffer.seed) {
    rows_ = buffer.matrix.rows;
    columns_ = buffer.matrix.columns;
    if (rows_ == 0 && columns_ == 0) {
      rows_ = std::max(std::size_t{1}, static_cast<std::size_t>(std::sqrt(static_cast<double>(elements_))));
      columns_ = (elements_ + rows_ - 1) / rows_;
    } else if (rows_ == 0 || elements_ % rows_ != 0 || elements_ / rows_ != columns_) {
      throw Error(Code::invalid_argument, fmt::format("[compression] power-sgd of {} elements; got a matrix of {} x {}, expected one of as many",
                                                      elements_, rows_, columns_));
    }
    rank_ = std::min({rank, rows_, columns_});
    if (rank_ * (rows_ + columns_) >= elements_) return;  // nothing to gain
    p_.resize(rank_ * rows_);
    q_.resize(rank_ * columns_);
  }

  void all_reduce(const CompressionStep& step, std::span<const T> input, std::span<T> transmitted, std::span<T> result) override {
    if (p_.empty()) {
      std::copy(input.begin(), input.end(), transmitted.begin());
      std::copy(input.begin(), input.end(), result.begin());
      return step.group.run({Goal::all_reduce, ReduceOp::sum, step.algorithm}, as_buffer(result));
    }
    refresh_q(step.number);
    each_row([&](std::size_t row, std::size_t begin, std::size_t size) {
      for (std::size_t r = 0; r < rank_; ++r) p_[r * rows_ + row] = static_cast<T>(dot(input.data() + begin, q(r), size));
    });
    step.group.run({Goal::all_reduce, ReduceOp::sum, step.algorithm}, as_buffer(std::span(p_)));
    orthonormalise(std::span(p_), rows_);
    std::fill(q_.begin(), q_.end(), T{0});
    each_row([&](std::size_t row, std::size_t begin, std::size_t size) {
      for (std::size_t r = 0; r < rank_; ++r) add_multiple(q(r), static_cast<double>(p_[r * rows_ + row]), input.data() + begin, size);
    });
    multiply(transmitted);
    step.group.run({Goal::all_reduce, ReduceOp::sum, step.algorithm}, as_buffer(std::span(q_)));
    multiply(result);
  }

  std::vector<Transfer> transfers(int) const override {
    if (p_.empty()) return {{Goal::all_reduce, ReduceOp::sum, kTypeOf<T>, elements_}};
    return {{Goal::all_reduce, ReduceOp::sum, kTypeOf<T>, p_.size()}, {Goal::all_reduce, ReduceOp::sum, kTypeOf<T>, q_.size()}};
  }

 private:
  T* q(std::size_t r) { return q_.data() + r * columns_; }

  template <typename Body>
  void each_row(const Body& body) const {
    for (std::size_t row = 0; row < rows_; ++row) body(row, row * columns_, std::min(columns_, elements_ - row * columns_));
  }

  /// into = P Q^T.
  void multiply(std::span<T> into) {
    std::fill(into.begin(), into.end(), T{0});
    each_row([&](std::size_t row, std::size_t begin, std::size_t size) {
      for (std::size_t r = 0; r < rank_; ++r) add_multiple(into.data() + begin, static_cast<double>(p_[r * rows_ + row]), q(r), size);
    });
  }

  /// A step of the iteration keeps what Q spans but not its size, and cannot leave zero or NaN: what is so is drawn anew.
  /// Q has the same bits on every rank, so that they do this alike.
  void refresh_q(std::uint64_t call) {
    if (!all_finite(std::span<const T>(q_))) std::fill(q_.begin(), q_.end(), T{0});
    orthonormalise(std::span(q_), columns_);
    Random random(seed_, call);
    for (std::size_t r = 0; r < rank_; ++r)
      if (std::all_of(q(r), q(r) + columns_, [](T value) { return value == 0; }))
        // Uniform, not normal as in the paper: any density spans the space, and this one needs no library's logarithm.
        std::generate_n(q(r), columns_, [&] { return static_cast<T>(random.uniform(-1, 1)); });
  }

  std::size_t elements_;
  std::uint64_t seed_;
  std::size_t rows_ = 0;
  std::size_t columns_ = 0;
  std::size_t rank_ = 0;
  std::vector<T> p_;  // column after column; both empty where nothing is gained
  std::vector<T> q_;
};

}  // namespace

template <typename T>
std::unique_ptr<Compressor<T>> power_sgd_compressor(const Spec& spec, const CompressedBuffer& buffer) {
  return std::make_unique<PowerSgd<T>>(buffer, count_option(spec, "rank", 2));
}
template std::unique_ptr<Compressor<float>> power_sgd_compressor(const Spec&, const CompressedBuffer&);
template std::unique_ptr<Compressor<double>> power_sgd_compressor(const Spec&, const CompressedBuffer&);

}  // namespace ddl
