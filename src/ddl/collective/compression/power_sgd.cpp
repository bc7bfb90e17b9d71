#include <algorithm>
#include <cmath>
#include <limits>

#include "ddl/collective/compression/compressions.h"
#include "ddl/collective/compression/kernels.h"
#include "ddl/core/random.h"

namespace ddl {
namespace {

template <typename T>
void add_multiple(T* to, double factor, const T* from, std::size_t n) {
  const T by = static_cast<T>(factor);
  for (std::size_t i = 0; i < n; ++i) to[i] += by * from[i];
}

/// Gram-Schmidt over columns of so many elements, one after the other in memory, each projected twice: once leaves them
/// askew where they are almost dependent (Giraud, Langou & Rozloznik 2005, "twice is enough"). A column that depends on
/// those before it becomes zero; one that holds a NaN or an infinity, and those after it, hold NaNs.
template <typename T>
void orthonormalise(std::span<T> columns, std::size_t length) {
  constexpr double kRounding = 8 * std::numeric_limits<T>::epsilon();
  for (std::size_t begin = 0; begin < columns.size(); begin += length) {
    T* const column = columns.data() + begin;
    const double before = std::sqrt(dot(column, column, length));
    for (int pass = 0; pass < 2; ++pass)
      for (std::size_t other = 0; other < begin; other += length)
        add_multiple(column, -dot(column, columns.data() + other, length), columns.data() + other, length);
    const double after = std::sqrt(dot(column, column, length));
    const bool dependent = after <= kRounding * before && std::isfinite(before);
    for (std::size_t i = 0; i < length; ++i) column[i] = dependent ? T{0} : static_cast<T>(column[i] / after);
  }
}

/// One tensor of the buffer, as M of rows x columns, and the two factors that stand for it.
struct Matrix {
  std::size_t begin = 0;  ///< in the buffer
  std::size_t elements = 0;
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t rank = 0;
  // Where P and Q begin in what travels, column after column.
  std::size_t p = 0;
  std::size_t q = 0;

  /// The last row may be shorter: what it lacks is zero.
  template <typename Body>
  void each_row(const Body& body) const {
    for (std::size_t row = 0; row < rows; ++row) body(row, begin + row * columns, std::min(columns, elements - row * columns));
  }
};

/// A matrix M, m x n, as P Q^T of rank r. Every call does one step of a power iteration for all ranks together, from the Q
/// of the call before:
///     P = sum over ranks of M Q;  orthonormalise P;  Q = sum over ranks of M^T P;  result = P Q^T.
/// What one rank transmits is C(M) = P P^T M, its part of the result. Q starts as random numbers that all ranks draw alike.
/// Exact for the sum where the sum's rank is at most r. Tensors of one dimension, and those with r*(m+n) >= m*n, go as they
/// are, beside the P of the others.
/// Error:   |M - C(M)| <= |M|, since P P^T is a projection; kept for the next call.
/// Bytes:   two all-reduces, over the tensors: of r*m (or all, where it goes as it is), and of r*n elements.
/// Source:  Vogels, Karimireddy & Jaggi 2019, PowerSGD: Practical Low-Rank Gradient Compression for Distributed
///          Optimization, algorithms 1 and 2. (There a rank keeps M - P Q^T / ranks; the sum of what ranks keep is the same.)
template <typename T>
class PowerSgd final : public Compressor<T> {
 public:
  PowerSgd(const CompressedBuffer& buffer, std::size_t rank) : seed_(buffer.seed) {
    auto shapes = buffer.tensors;
    std::size_t total = 0;
    for (const auto& shape : shapes) total += shape.rows * shape.columns;
    if (!shapes.empty() && total != buffer.elements)
      throw Error(Code::invalid_argument, fmt::format("[compression] power-sgd: tensors do not fill their buffer; got {} elements, expected {}",
                                                      total, buffer.elements));
    if (shapes.empty()) {
      const auto rows = std::max(std::size_t{1}, static_cast<std::size_t>(std::sqrt(static_cast<double>(buffer.elements))));
      shapes.push_back({rows, (buffer.elements + rows - 1) / rows});
    }
    std::size_t begin = 0, p = 0, q = 0;
    for (const auto& shape : shapes) {
      const std::size_t elements = std::min(shape.rows * shape.columns, buffer.elements - begin);
      const std::size_t r = std::min({rank, shape.rows, shape.columns});
      if (r * (shape.rows + shape.columns) < elements) {
        matrices_.push_back({begin, elements, shape.rows, shape.columns, r, p, q});
        p += r * shape.rows;
        q += r * shape.columns;
      } else {
        plain_.push_back({begin, elements, p});
        p += elements;
      }
      begin += elements;
    }
    p_.resize(p);
    q_.resize(q);
  }

  void all_reduce(const CompressionStep& step, std::span<const T> input, std::span<T> transmitted, std::span<T> result) override {
    for (const auto& tensor : plain_) std::copy_n(input.begin() + offset(tensor.begin), tensor.elements, p_.begin() + offset(tensor.p));
    for (std::size_t i = 0; i < matrices_.size(); ++i) {
      const auto& m = matrices_[i];
      refresh_q(m, Random(Random(seed_, i).bits(), step.number));
      m.each_row([&](std::size_t row, std::size_t begin, std::size_t size) {
        for (std::size_t r = 0; r < m.rank; ++r) p(m, r)[row] = static_cast<T>(dot(input.data() + begin, q(m, r), size));
      });
    }
    sum(step, p_);
    std::fill(q_.begin(), q_.end(), T{0});
    for (const auto& m : matrices_) {
      orthonormalise(std::span(p(m, 0), m.rank * m.rows), m.rows);
      m.each_row([&](std::size_t row, std::size_t begin, std::size_t size) {
        for (std::size_t r = 0; r < m.rank; ++r) add_multiple(q(m, r), static_cast<double>(p(m, r)[row]), input.data() + begin, size);
      });
    }
    multiply(transmitted);
    if (!q_.empty()) sum(step, q_);
    multiply(result);
    for (const auto& tensor : plain_) {
      std::copy_n(input.begin() + offset(tensor.begin), tensor.elements, transmitted.begin() + offset(tensor.begin));
      std::copy_n(p_.begin() + offset(tensor.p), tensor.elements, result.begin() + offset(tensor.begin));
    }
  }

  std::vector<Transfer> transfers(int) const override {
    std::vector<Transfer> all{{Goal::all_reduce, kTypeOf<T>, p_.size()}};
    if (!q_.empty()) all.push_back({Goal::all_reduce, kTypeOf<T>, q_.size()});
    return all;
  }

 private:
  /// A tensor that goes as it is.
  struct Plain {
    std::size_t begin = 0;  ///< in the buffer
    std::size_t elements = 0;
    std::size_t p = 0;  ///< in what travels
  };

  static std::ptrdiff_t offset(std::size_t at) { return static_cast<std::ptrdiff_t>(at); }
  static void sum(const CompressionStep& step, std::vector<T>& values) {
    step.group.run({Goal::all_reduce, ReduceOp::sum, step.algorithm}, as_buffer(std::span(values)));
  }

  T* p(const Matrix& m, std::size_t r) { return p_.data() + m.p + r * m.rows; }
  T* q(const Matrix& m, std::size_t r) { return q_.data() + m.q + r * m.columns; }

  /// into = P Q^T, of all matrices.
  void multiply(std::span<T> into) {
    std::fill(into.begin(), into.end(), T{0});
    for (const auto& m : matrices_)
      m.each_row([&](std::size_t row, std::size_t begin, std::size_t size) {
        for (std::size_t r = 0; r < m.rank; ++r) add_multiple(into.data() + begin, static_cast<double>(p(m, r)[row]), q(m, r), size);
      });
  }

  /// A step of the iteration keeps what Q spans but not its size, and cannot leave zero or NaN: what is so is drawn anew.
  /// Q has the same bits on every rank, so that they do this alike.
  void refresh_q(const Matrix& m, Random random) {
    const std::span all(q(m, 0), m.rank * m.columns);
    if (!all_finite(std::span<const T>(all))) std::fill(all.begin(), all.end(), T{0});
    orthonormalise(all, m.columns);
    for (std::size_t r = 0; r < m.rank; ++r)
      if (std::all_of(q(m, r), q(m, r) + m.columns, [](T value) { return value == 0; }))
        // Uniform, not normal as in the paper: any density spans the space, and this one needs no library's logarithm.
        std::generate_n(q(m, r), m.columns, [&] { return static_cast<T>(random.uniform(-1, 1)); });
  }

  std::uint64_t seed_;
  std::vector<Matrix> matrices_;
  std::vector<Plain> plain_;
  std::vector<T> p_;  // of all tensors; q_ only of those that are compressed
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
