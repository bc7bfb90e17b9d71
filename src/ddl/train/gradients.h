#pragma once

#include <functional>
#include <vector>

#include <ATen/ATen.h>

#include "ddl/collective/communicator.h"
#include "ddl/measure/trace.h"
#include "ddl/plan/plan.h"

namespace ddl {

/// Gradients in buckets that the transport reduces in place.
///
/// Autograd gives each parameter a gradient of its own; as soon as it is complete (a post-accumulate hook says so) it is
/// copied to its place in a bucket and dropped, so that at most a bucket's worth exists twice. Why a copy, and not
/// gradients that are views of the bucket: autograd would have to zero the view and add into it, three passes over
/// memory instead of two.
///
/// Memory layout: one block from Transport::allocate; bucket after bucket, each from a multiple of 64 bytes, parameters
/// packed within. The last bucket ends with one element more: the control element, which the sum carries to all ranks.
class GradientBuckets {
 public:
  /// `parameters`: leaves of one element type. Their hooks are set here, once, and stay as long as this object.
  GradientBuckets(std::vector<at::Tensor> parameters, Transport& transport);
  ~GradientBuckets();
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  /// Lays the buckets out anew. Not while a step runs.
  void arrange(const std::vector<Bucket>& buckets);

  /// Before a step: forgets which gradients came. `ready(bucket)` is called, in the thread that runs backward, when
  /// the last gradient of a bucket is in it; `copied`, if given, gets a span for every copy.
  void begin_step(std::function<void(int bucket)> ready, std::function<void(Nanoseconds begin, Nanoseconds end)> copied);
  /// Before each backward of the step. The first gradient of a parameter is copied to its place, those of later ones are
  /// added to it; in the last one a gradient that came is complete.
  void begin_pass(bool last);
  /// After the last backward: zeros for every parameter that got no gradient in this step, then `ready` for buckets still
  /// open.
  void complete_step();

  Buffer buffer(int bucket) const;
  /// A view of the bucket with the parameter's sizes and strides.
  const at::Tensor& gradient(int parameter) const { return views_[static_cast<std::size_t>(parameter)]; }

  void set_control(double value);
  double control() const;

  /// Parameters in the order in which their gradients became complete in the last step.
  const std::vector<int>& observed_order() const { return observed_; }
  std::int64_t bytes() const { return static_cast<std::int64_t>(memory_.size()); }

 private:
  struct Hook;
  void take(int parameter);
  void settle(int parameter);

  std::vector<at::Tensor> parameters_;
  std::size_t element_bytes_;
  ElementType type_;
  std::span<std::byte> memory_;
  std::vector<Buffer> buffers_;
  std::vector<at::Tensor> views_;
  std::vector<int> bucket_of_;
  at::Tensor control_;
  std::function<void(int)> ready_;
  std::function<void(Nanoseconds, Nanoseconds)> copied_;
  bool last_pass_ = false;
  std::vector<bool> filled_;   ///< by parameter: something of this step is in its place
  std::vector<bool> came_;     ///< by parameter: what is in its place is complete
  std::vector<int> missing_;  ///< gradients still to come, by bucket
  std::vector<int> observed_;
};

}  // namespace ddl
