#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/ATen.h>

#include "ddl/collective/execute.h"
#include "ddl/nn/gradient_place.h"
#include "ddl/train/shard_layout.h"

namespace ddl {

class Replay;

/// Gradients of which a worker keeps, once they are summed over all, its own parts alone.
///
/// As in GradientBuckets products write gradients to their place in a bucket, and autograd's are copied there as they come, and dropped. A bucket that is complete after every
/// micro-batch (Bucket::every_pass) has memory while it is filled and reduced only: two slots serve all such buckets, the even ones and the odd
/// ones, so that one is filled while the other is reduced; what was reduced is added to the worker's part, and the slot is free. Other buckets
/// have memory of their own, where the gradients of micro-batches add up; the worker's part is in it.
///
/// Gradients that come in another order than buckets lie may want a slot that is being filled: that bucket gets heap memory of its own, for good.
class GradientShards {
 public:
  /// `parameters`: the network's. Hooks are set here, once. All outlive it. `replay`: as in GradientBuckets.
  GradientShards(std::vector<at::Tensor> parameters, const std::vector<ShardLayout>& layouts, Transport& transport, Replay* replay = nullptr);
  ~GradientShards();
  GradientShards(const GradientShards&) = delete;
  GradientShards& operator=(const GradientShards&) = delete;

  /// `ready` is called, in the thread that runs backward, when a bucket is complete. `room` waits until the bucket, complete before, was reduced, and has called
  /// take_reduced() then; false where its collective cannot have begun. `copied` gets a span for every copy.
  struct Callbacks {
    std::function<void(int bucket)> ready;
    std::function<bool(int bucket)> room;
    std::function<void(Nanoseconds begin, Nanoseconds end)> copied;
  };
  void begin_step(Callbacks callbacks);
  /// Before each backward; `last`: no other of the step will touch its parameters.
  void begin_pass(bool last) { last_pass_ = last; }
  /// After each backward of a stage, one without samples too: zeros for what got no gradient in it.
  void complete_pass(int stage);
  /// After the step's last backward: what is not complete yet.
  void complete_step();

  Buffer buffer(int bucket) const;
  /// The bucket was reduce-scattered: its part of this worker counts.
  void take_reduced(int bucket);

  /// The worker's part of a parameter's gradient, as own_part() of the parameter lies.
  const at::Tensor& gradient(std::size_t parameter) const { return gradients_[parameter]; }
  /// The worker's parts, a vector for each bucket.
  const std::vector<at::Tensor>& own() const { return own_; }

  std::int64_t slot_bytes() const { return slot_bytes_; }  ///< memory that buckets are filled in
  std::int64_t own_bytes() const { return own_bytes_; }    ///< parts apart from that
  /// As GradientBuckets tells them.
  std::int64_t gradient_bytes() const;
  std::int64_t copied_bytes() const { return copied_bytes_; }
  /// Of those that were made in their place the bytes that were written there from 16 bits: a pass, too.
  std::int64_t widened_bytes() const { return widened_bytes_; }

 private:
  template <class>
  friend class GradientHook;
  enum class State : std::uint8_t { empty, filling, complete };
  struct Place {
    std::byte* data = nullptr;   ///< where its elements go; null: in no slot
    int slot = kNone;            ///< that it takes its turn in
    State state = State::empty;
    int missing = 0;
    bool counts = false;         ///< something of this step is in its own part
  };

  /// Whether a gradient that comes now is for its place.
  bool waits_for(std::size_t parameter) const { return call_.ready && !came_[parameter]; }
  std::optional<GradientPlace::Place> place(int parameter);
  void take(int parameter, at::Tensor& gradient);
  void arrived(int parameter, bool whole, std::int64_t widened = 0);
  void make_room(int bucket);
  void finish(int bucket);
  void came(std::size_t parameter);
  at::Tensor view(std::size_t parameter) const;

  std::vector<at::Tensor> parameters_;
  const std::vector<ShardLayout>& layouts_;
  Replay* replay_;
  ElementType type_;
  std::size_t element_bytes_;
  std::vector<int> bucket_of_;             ///< by parameter
  std::vector<std::size_t> offset_of_;     ///< by parameter, elements
  std::vector<Place> places_;              ///< by bucket
  std::vector<std::byte*> slots_;
  std::vector<int> holder_;                ///< by slot: bucket
  std::vector<at::Tensor> own_;            ///< by bucket
  std::vector<at::Tensor> gradients_;      ///< by parameter
  std::vector<at::Tensor> beside_;         ///< memory of buckets that came out of turn
  std::vector<bool> filled_, came_;        ///< by parameter
  Callbacks call_;
  bool last_pass_ = false;
  std::int64_t slot_bytes_ = 0, own_bytes_ = 0, copied_bytes_ = 0, widened_bytes_ = 0;
};

}  // namespace ddl
