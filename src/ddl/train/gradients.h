#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "ddl/collective/communicator.h"
#include "ddl/measure/trace.h"
#include "ddl/nn/gradient_place.h"
#include "ddl/plan/plan.h"
#include "ddl/train/device.h"

namespace ddl {

class Replay;

/// Gradients in buckets that the transport reduces in place.
///
/// Products on the host write the gradient of their weight to its place in a bucket, or add it there (nn/gradient_place.h), and rows of a table are added there. Of all else
/// autograd gives each parameter a gradient of its own; as soon as it is complete (a post-accumulate hook says so) it is
/// copied to its place and dropped, so that at most a bucket's worth exists twice. Why a copy, and not
/// gradients that are views of the bucket: autograd would have to zero the view and add into it, three passes over
/// memory instead of two.
///
/// Memory layout: one block from Transport::allocate; bucket after bucket, each from a multiple of 64 bytes, parameters
/// packed within. A bucket may end with one element more: the control element, which the sum carries to all ranks.
///
/// Where gradients are on a device with memory of its own there is a second block there, laid out alike. Gradients are gathered in that; a bucket
/// that is complete goes to the transport's block in one copy, beside the rest of backward, and comes back by receive().
class GradientBuckets {
 public:
  /// `parameters`: leaves of one element type. Their hooks are set here, once, and stay as long as this object.
  /// All outlive it. `replay`: of an emulated worker, which waits for as long as copies take; the buckets hold zeros.
  GradientBuckets(std::vector<at::Tensor> parameters, Transport& transport, Device& device, Replay* replay = nullptr);
  ~GradientBuckets();
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  /// Lays the buckets out anew; their parameters are places among those given above. Not while a step runs.
  void arrange(const std::vector<Bucket>& buckets);

  /// Before a step: forgets which gradients came. `ready` is called, in the thread that runs backward, when the last gradient of a
  /// bucket is on its way into it: it is there once the moment has passed. `copied`, if given, gets a span for every copy on the host.
  using Ready = std::function<void(int bucket, const Moment& there)>;
  /// `travels`: gradients go on to buffer(); else they are for this worker alone, and stay on the device.
  void begin_step(Ready ready, std::function<void(Nanoseconds begin, Nanoseconds end)> copied, bool travels = true);
  /// Before each backward of the step; `last`: no other will touch its parameters. The first gradient of a parameter is copied to its place, those of later ones are
  /// added to it; in a last one a gradient that came is complete.
  void begin_pass(bool last);
  /// What a backward does to the buckets whenever a graph does it again.
  struct Arrivals {
    bool last = false;
    std::vector<bool> filled = {};                   ///< by parameter, when it comes to it
    std::vector<int> missing = {};                   ///< by bucket
    std::vector<int> gradients = {};                 ///< in the order in which they come
    std::vector<std::pair<int, Milestone>> complete = {};  ///< buckets, each from that place in the graph on
  };
  /// Before a backward that is recorded (Device::record()) as the first, or the one after `before`, of a step: its gradients go to their places, and what the host does of it is noted.
  void begin_recorded_pass(bool last, const Arrivals* before);
  /// Nothing where none was begun.
  Arrivals end_recorded_pass();
  /// After the launch of a graph of that: the host's own part.
  void arrive_again(const Arrivals& arrivals);
  /// A gradient that autograd gave to another leaf in a parameter's place, an older version of it: as a hook does with the parameter's own. Is dropped.
  void take(int parameter, at::Tensor& gradient);
  /// After the last backward: zeros for every parameter that got no gradient in this step, then `ready` for buckets still
  /// open.
  void complete_step();

  /// In the transport's memory.
  Buffer buffer(int bucket) const;
  /// Takes what was reduced in buffer() to the device, in order with what computes with it. The buffer stays as it is until that is over.
  void receive(int bucket);
  /// What was put into the views of a bucket, to buffer(): it is there once the moment has passed. With `complete`: from there on in a graph that was launched.
  Moment deliver(int bucket, const Milestone* complete = nullptr);
  /// A view of the bucket, on the device, with the parameter's sizes and strides.
  const at::Tensor& gradient(int parameter) const { return views_[static_cast<std::size_t>(parameter)]; }

  /// Whether some bucket carries the control element.
  bool has_control() const { return control_.defined(); }
  /// What this rank puts into the control element, before its bucket is complete: a number, and a scalar on the device besides.
  void set_control(double value);
  void add_to_control(const at::Tensor& value);
  /// The sum over ranks, once that bucket is reduced.
  double control() const;

  /// Parameters in the order in which their gradients became complete in the last step.
  const std::vector<int>& observed_order() const { return observed_; }
  std::int64_t bytes() const { return static_cast<std::int64_t>(memory_.size()); }
  /// Of the gradients of the last step: how many bytes there are, and how many were written to, or added at, their places after autograd had made them elsewhere; what products made in place is not among these, and of a table only the rows that autograd handed on.
  std::int64_t gradient_bytes() const;
  std::int64_t copied_bytes() const { return copied_bytes_; }
  /// Of those that were made in their place the bytes that were written there from 16 bits: a pass, too.
  std::int64_t widened_bytes() const { return widened_bytes_; }

 private:
  template <class>
  friend class GradientHook;
  std::optional<GradientPlace::Place> place(int parameter) const;
  /// `whole`: else a summand of it.
  void arrived(int parameter, bool whole, std::int64_t widened = 0);
  /// Whether a gradient that comes now is for its place.
  bool waits_for(std::size_t parameter) const { return ready_ && !came_[parameter]; }
  /// Gradients of each bucket.
  std::vector<int> expected() const;
  void settle(int parameter, const Milestone* complete = nullptr);
  /// The gradients of a bucket, in the transport's memory and on the device, as vectors.
  struct Place {
    at::Tensor host, device;
  };

  Device& device_;
  Replay* replay_;
  std::vector<at::Tensor> parameters_;
  std::size_t element_bytes_;
  ElementType type_;
  std::span<std::byte> memory_;
  at::Tensor block_;             ///< on the device, where that is not the host
  std::vector<Buffer> buffers_;
  std::vector<Place> places_;    ///< by bucket, where the device is not the host
  std::vector<at::Tensor> views_;
  std::vector<int> bucket_of_;
  std::vector<bool> late_;       ///< by bucket: complete with the step alone
  at::Tensor control_;      ///< in the transport's memory
  at::Tensor own_control_;  ///< on the device
  Ready ready_;
  std::function<void(Nanoseconds, Nanoseconds)> copied_;
  bool travels_ = true;
  bool last_pass_ = false;
  std::optional<Arrivals> recorded_;  ///< while a backward is recorded
  std::vector<bool> filled_;   ///< by parameter: something of this step is in its place
  std::vector<bool> came_;     ///< by parameter: what is in its place is complete
  std::vector<int> missing_;  ///< gradients still to come, by bucket
  std::vector<int> observed_;
  std::int64_t copied_bytes_ = 0, widened_bytes_ = 0;
};

}  // namespace ddl
