#pragma once

#include <cstdint>
#include <functional>
#include <memory>
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

/// A flat buffer seen as a matrix, row after row. 0 x 0: as square as it goes, the last row padded with zeros.
struct MatrixShape {
  std::size_t rows = 0;
  std::size_t columns = 0;
};

/// What a compressor is made for; alike on all ranks.
struct CompressedBuffer {
  std::size_t elements = 0;  ///< at least 1
  MatrixShape matrix = {};
  std::uint64_t seed = 0;  ///< of everything that it draws
};

/// The how-manieth call of a buffer it is, from 0 on, and where.
struct CompressionStep {
  Communicator& group;
  std::string_view algorithm;  ///< of the all-reduces that it takes
  std::uint64_t number = 0;
};

/// A collective that a compressed all-reduce is made of: of so many elements of that type, cut into equal parts where
/// ranks have their own.
struct Transfer {
  Goal goal = Goal::all_reduce;
  ReduceOp op = ReduceOp::sum;
  ElementType type = ElementType::fp32;
  std::size_t elements = 0;
};

/// How one rank compresses one buffer, call after call. T: float or double.
template <typename T>
class Compressor {
 public:
  virtual ~Compressor() = default;

  /// result = sum over ranks of C(input), the same bits on every rank; transmitted = C(input) of this rank. All of the
  /// buffer's elements; `result` may be `input`. Where one rank's input holds a NaN or an
  /// infinity, every rank's result does.
  /// Errors: those of Communicator::run().
  virtual void all_reduce(const CompressionStep& step, std::span<const T> input, std::span<T> transmitted, std::span<T> result) = 0;

  /// What all_reduce() does in a group of so many ranks, where every input is finite.
  virtual std::vector<Transfer> transfers(int ranks) const = 0;
};

/// One way to compress. Its makers give a null for what sends everything as it is.
/// Errors of the makers: invalid_argument for an option's value or a matrix that has another number of elements.
struct Compression {
  std::function<std::unique_ptr<Compressor<float>>(const Spec&, const CompressedBuffer&)> fp32;
  std::function<std::unique_ptr<Compressor<double>>(const Spec&, const CompressedBuffer&)> fp64;
  std::vector<std::string> options = {};
  /// Whether what a call did not transmit is added to the input of the next (Seide et al. 2014; Karimireddy et al. 2019).
  bool feedback = false;
};

/// Every compression there is.
Registry<Compression> builtin_compressions();

/// A compression as users write it: "top-k[ratio=0.01]".
struct ChosenCompression {
  Spec spec;
  Compression compression;
};
/// Errors: not_found with the nearest name, invalid_argument for an option that it does not have, or a bad value.
ChosenCompression choose_compression(std::string_view text);

}  // namespace ddl
