#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string_view>
#include <thread>
#include <variant>
#include <vector>

#include "ddl/collective/communicator.h"
#include "ddl/collective/compression.h"
#include "ddl/core/units.h"

namespace ddl {

class CommunicationQueue;

/// What calls cost and lost, on this rank.
struct CompressionReport {
  Bytes sent;          ///< by the transport, in these calls
  Bytes uncompressed;  ///< what plain all-reduces by the same algorithm would have sent
  /// |x| and |x - C(x)|, in the Euclidean norm, x being what was compressed: this rank's weighted elements plus what earlier
  /// calls left. Of several calls, of all their elements together. No number where an element is none.
  double input = 0;
  double lost = 0;

  double relative_error() const { return lost == 0 ? 0 : lost / input; }
  CompressionReport& operator+=(const CompressionReport& other);
};

struct CompressedAllReduceOptions {
  /// Of the all-reduces: a name of builtin_collectives() with its options, or "auto".
  std::string algorithm = "auto";
  /// Of all random draws, where the compression's option `seed` says nothing else.
  std::uint64_t seed = 1;
};

/// What lies in a bucket.
struct BucketLayout {
  /// The tensors in it, one after the other, without the exact elements; none: see CompressedBuffer.
  std::vector<MatrixShape> tensors = {};
  /// So many elements at its end are no gradients and go as they are.
  std::size_t exact = 0;
};

/// The all-reduces of one group under one compression, with what they must remember between calls: for every bucket the
/// elements that were not transmitted yet (error feedback), and what its compressor keeps.
///
///     x_t = w*g_t + e_(t-1);   result_t = sum over ranks of C(x_t);   e_t = x_t - C(x_t)
///
/// The weight w comes before the compression: the rank's factor (weighted sum) or 1/P (average); e is in weighted units.
/// The result has the same bits on every rank and in every run. A result with a NaN or an infinity in it leaves e as it
/// was: whoever skips that step has lost no other.
/// Source:  Seide et al. 2014, 1-Bit Stochastic Gradient Descent; Karimireddy et al. 2019, Error Feedback Fixes SignSGD.
///
/// Memory:  two copies of the largest buffer, one of each bucket with error feedback, plus what travels.
/// Threads: one caller at a time; calls run one after the other, in the order in which they were made, as a
///          communicator's do, on a thread of its own or on one that waits. The group is this object's alone: a
///          communicator's group() of all its ranks makes one that is.
class CompressedAllReduce {
 public:
  /// Every rank makes one at the same point. The group must outlive it.
  /// Errors: those of choose_compression(); invalid_argument on every rank where they chose differently; those of
  /// Communicator::run().
  CompressedAllReduce(Communicator& group, std::string_view compression, CompressedAllReduceOptions options = {});
  /// Interrupts what is pending.
  ~CompressedAllReduce();
  CompressedAllReduce(const CompressedAllReduce&) = delete;
  CompressedAllReduce& operator=(const CompressedAllReduce&) = delete;

  /// In place, on a buffer of fp32 or fp64. `bucket` names the state to go on with: every rank calls for the same buckets
  /// in the same order. `layout` is looked at in its first call.
  /// Errors: invalid_argument for another type, an operation other than sum, average and weighted sum, a bucket that had
  /// another type or size before, tensors of another size; those of Communicator::run(), after which neither the group nor
  /// this object can be used.
  CompressionReport run(std::uint64_t bucket, const Buffer& buffer, ReduceOp op, double factor = 1, const BucketLayout& layout = {});
  /// The same in the background. Errors come from the handle; `report`, if given, is written before it is done. `ready` as
  /// Communicator::start() has it.
  Handle start(std::uint64_t bucket, const Buffer& buffer, ReduceOp op, double factor = 1, const BucketLayout& layout = {},
               CompressionReport* report = nullptr, Start when = Start::now, std::function<void()> ready = {});

  /// What this rank will send in a call with such a bucket: exactly CompressionReport::sent. Nothing is moved.
  /// Errors: as run().
  Bytes bytes(std::size_t elements, ElementType type, const BucketLayout& layout = {});

  // These wait for what was started.

  /// Of all calls since it was made.
  CompressionReport total() const;
  /// e: what was not transmitted of a bucket's elements yet; nothing of one without error feedback. Its norm is the last
  /// call's CompressionReport::lost.
  std::vector<double> residual(std::uint64_t bucket) const;
  /// Forgets all buckets: when they are cut anew, or training starts again. Every rank does so between the same calls.
  void forget();

 private:
  template <typename T>
  struct Bucket {
    std::size_t elements = 0;
    std::size_t exact = 0;
    std::unique_ptr<Compressor<T>> compressor;  ///< null: everything is sent as it is
    std::vector<T> residual;                    ///< empty without error feedback
    Bytes uncompressed;
    std::uint64_t calls = 0;
  };

  void agree();
  void check(ElementType type) const;
  CompressionReport call(std::uint64_t key, const Buffer& buffer, ReduceOp op, double factor, const BucketLayout& layout);
  template <typename T>
  CompressionReport compress(std::uint64_t key, std::span<T> all, ReduceOp op, double factor, const BucketLayout& layout);
  template <typename T>
  Bucket<T>& bucket(std::uint64_t key, std::size_t elements, const BucketLayout& layout);
  template <typename T>
  std::unique_ptr<Compressor<T>> compressor(std::uint64_t key, std::size_t elements, const BucketLayout& layout) const;
  template <typename T>
  std::span<T> scratch(std::vector<std::byte>& memory, std::size_t elements) const;

  Communicator& group_;
  ChosenCompression chosen_;
  CompressedAllReduceOptions options_;
  std::map<std::uint64_t, std::variant<Bucket<float>, Bucket<double>>> buckets_;
  CompressionReport total_;
  std::vector<std::byte> input_;
  std::vector<std::byte> transmitted_;
  std::shared_ptr<CommunicationQueue> queue_;
  std::thread thread_;
};

}  // namespace ddl
