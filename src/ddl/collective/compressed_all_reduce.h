#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <variant>
#include <vector>

#include "ddl/collective/communicator.h"
#include "ddl/collective/compression.h"
#include "ddl/core/units.h"

namespace ddl {

/// What one call cost and lost, on this rank.
struct CompressionReport {
  Bytes sent;          ///< by the transport, in this call
  Bytes uncompressed;  ///< what the plain all-reduce by the same algorithm would have sent
  /// |x - C(x)| / |x|, in the Euclidean norm, x being what was compressed: this rank's weighted elements plus what earlier
  /// calls left. 0 where x is; NaN where x holds a NaN or an infinity.
  double relative_error = 0;
};

struct CompressedAllReduceOptions {
  /// Of the all-reduces: a name of builtin_collectives() with its options, or "auto".
  std::string algorithm = "auto";
  /// Of all random draws. Alike on all ranks.
  std::uint64_t seed = 0;
};

/// The all-reduces of one group under one compression, with what they must remember between calls: for every bucket the
/// elements that were not transmitted yet, and what its compressor keeps.
///
/// Weights come before the compression: x = factor * elements (weighted sum) or elements / P (average). Everyone gets the
/// sum over ranks of C(x), the same bits on every rank and in every run.
/// Memory:  one copy of the largest buffer, one of each bucket with error feedback, plus what travels.
/// Threads: one caller. Nothing else may be under way on the communicator, whose traffic is counted.
class CompressedAllReduce {
 public:
  /// `compression` as users write it: "top-k[ratio=0.01]". The group must outlive this.
  /// Errors: those of choose_compression().
  CompressedAllReduce(Communicator& group, std::string_view compression, CompressedAllReduceOptions options = {});

  /// In place, on a buffer of fp32 or fp64; blocks. `bucket` names the state to go on with: every rank calls for the same
  /// buckets in the same order. `matrix` is asked for at a bucket's first call, by compressions of matrices; the default is
  /// as square as the buffer goes.
  /// Errors: invalid_argument for another type or operation than sum, average and weighted sum, for a bucket that had
  /// another type or size before, or a matrix of another size; those of Communicator::run(), after which the bucket's state
  /// is as before the call, but the communicator unusable.
  CompressionReport run(std::uint64_t bucket, const Buffer& buffer, ReduceOp op, double factor = 1, MatrixShape matrix = {});

  /// Forgets all buckets: when they are cut anew, or training starts again. Every rank does so between the same calls.
  void forget() { buckets_.clear(); }

  /// What was not transmitted of a bucket's elements yet, |.|; 0 for one without error feedback.
  double residual_norm(std::uint64_t bucket) const;

 private:
  template <typename T>
  struct Bucket {
    std::size_t elements = 0;
    std::unique_ptr<Compressor<T>> compressor;  ///< null: everything is sent as it is
    std::vector<T> residual;                    ///< of error feedback
    std::uint64_t calls = 0;
  };

  template <typename T>
  double run_bucket(std::uint64_t key, std::span<T> values, ReduceOp op, double factor, MatrixShape matrix);
  template <typename T>
  Bucket<T>& bucket(std::uint64_t key, std::size_t elements, MatrixShape matrix);

  Communicator& group_;
  ChosenCompression chosen_;
  CompressedAllReduceOptions options_;
  std::map<std::uint64_t, std::variant<Bucket<float>, Bucket<double>>> buckets_;
  std::vector<std::byte> transmitted_;
};

}  // namespace ddl
