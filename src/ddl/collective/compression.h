#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ddl/collective/communicator.h"
#include "ddl/core/registry.h"
#include "ddl/core/spec.h"

namespace ddl {

// A compression C stands for a pair of functions: what a rank sends of its elements x, and what the others make of that,
// C(x). An all-reduce under it gives every rank the sum over ranks of C(x), which is not the sum of x; what is lost is
// either right on average (int8) or kept and added to the next call's elements (error feedback).

/// A tensor as a matrix, row after row. One that has one dimension is rows x 1.
struct MatrixShape {
  std::size_t rows = 0;
  std::size_t columns = 0;
};

/// What a compressor is made for; alike on all ranks.
struct CompressedBuffer {
  std::size_t elements = 0;  ///< at least 1
  /// The tensors that lie in it, one after the other, for compressions of matrices. None: it is one matrix, as square as
  /// it goes, the last row padded with zeros.
  std::vector<MatrixShape> tensors = {};
  std::uint64_t seed = 0;  ///< of everything that it draws
};

/// The how-manieth call of a buffer it is, from 0 on, and where.
struct CompressionStep {
  Communicator& group;
  std::string_view algorithm;  ///< of the all-reduces that it takes
  std::uint64_t number = 0;
};

/// A collective that a compressed all-reduce is made of: of so many elements of that type, cut into equal parts where
/// ranks have their own. All-reduces go by the algorithm that the user chose, the others by "auto".
struct Transfer {
  Goal goal = Goal::all_reduce;
  ElementType type = ElementType::fp32;
  std::size_t elements = 0;
};

/// How one rank compresses one buffer, call after call. T: float or double.
template <typename T>
class Compressor {
 public:
  virtual ~Compressor() = default;

  /// `result`: the same bits on every rank; the sum over ranks of `transmitted`, but for rounding. Where any rank's input
  /// holds a NaN or an infinity, every rank's result does.
  /// Shape:   all the elements of the buffer; none overlaps another.
  /// Errors:  those of Communicator::run().
  virtual void all_reduce(const CompressionStep& step, std::span<const T> input, std::span<T> transmitted, std::span<T> result) = 0;

  /// What all_reduce() does in a group of so many ranks, in this order, whatever the elements are.
  virtual std::vector<Transfer> transfers(int ranks) const = 0;
};

/// One way to compress. Its makers give a null for what sends everything as it is.
/// Errors of the makers: invalid_argument for an option's value, or tensors that have another number of elements.
struct Compression {
  std::function<std::unique_ptr<Compressor<float>>(const Spec&, const CompressedBuffer&)> fp32;
  std::function<std::unique_ptr<Compressor<double>>(const Spec&, const CompressedBuffer&)> fp64;
  std::vector<std::string> options = {};
  /// Whether what a call did not transmit is added to the input of the next, where option `feedback` says nothing else.
  bool feedback = false;
};

/// Every compression there is.
Registry<Compression> builtin_compressions();

/// A compression as users write it: "top-k[ratio=0.01]".
struct ChosenCompression {
  Spec spec;
  Compression compression;
  std::optional<std::uint64_t> seed = {};  ///< option `seed`
};
/// Errors: not_found with the nearest name, invalid_argument for an option that it does not have, or a bad value.
ChosenCompression choose_compression(std::string_view text);

}  // namespace ddl
