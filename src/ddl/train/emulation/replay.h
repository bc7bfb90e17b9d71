#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "ddl/measure/timed_waits.h"
#include "ddl/nn/network.h"
#include "ddl/plan/plan.h"
#include "ddl/predict/step/cost_source.h"
#include "ddl/train/emulation/zero_memory.h"

namespace ddl {

/// A worker's computation as timed waits: what layers, the loss, updates and copies take comes from a profile. Values and gradients are zeros of the right shape, type and memory format.
///
/// Each layer is a node of autograd, so that hooks, buckets, stages, recomputation and backward in two parts (split_backward.h) are those of a real worker. The node is charged for the
/// gradients that are wanted of it. What nobody but the worker itself sees is not waited for by itself: time is charged layer by layer, and waited for where a bucket of gradients
/// is complete and where a task ends.
///
/// Passes over memory that an accelerator would have done are left out. Values lie over one block of zeros; those that travel to other workers have memory of their own, layer by layer. Of a value that several layers
/// read one gives a gradient and the others give none, since autograd would add them up; a parameter whose gradient is there already gets no other.
/// Threads: the worker's.
class Replay final : public LayerReplay {
 public:
  /// `network` and `plan` are the worker's; the network is replayed from here on, and this outlives all that is computed with it. `worker`: its number, as `source` is asked. All times count `slow`.
  Replay(Network& network, const Plan& plan, std::shared_ptr<const CostSource> source, int worker, double slow, const std::string& precision, WaitClock clock);
  ~Replay() override;
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  at::Tensor forward(std::size_t layer, const std::vector<at::Tensor>& values, const NetworkInput& input) override;
  /// What the last stage loses on so many samples: 0.
  at::Tensor loss(const NetworkOutput& output, std::int64_t samples);
  /// The optimizer's step over so many bytes of parameters.
  void update(std::int64_t bytes) { charge(source_->update(worker_, bytes)); }
  /// A copy of so many bytes.
  void copy(std::int64_t bytes) { charge(source_->copy(worker_, bytes)); }

  /// A piece of work; between, what is charged is waited for (TimedWaits).
  TimedWaits& waits() { return waits_; }

 private:
  struct LayerNode;
  void charge(double seconds) { waits_.charge(slow_ * seconds); }
  const LayerCost& cost(std::size_t layer, std::int64_t samples);
  at::Tensor zeros(std::size_t layer, at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type);
  at::Tensor value_of(std::size_t layer, std::int64_t samples);
  bool is_first_reader(std::size_t of, const at::Tensor& value);

  Network& network_;
  std::shared_ptr<const CostSource> source_;
  int worker_;
  double slow_;
  TimedWaits waits_;
  std::vector<at::ScalarType> types_;       ///< of layers' values
  std::vector<int> stage_of_;               ///< by layer
  std::vector<bool> travels_;               ///< by layer: its value, or the gradient of that, goes to other workers
  std::vector<bool> leaves_;                ///< by layer: its value leaves the stage that makes it
  std::map<std::pair<std::size_t, std::int64_t>, LayerCost> costs_;
  ZeroMemory zeros_;
  std::vector<std::unique_ptr<ZeroMemory>> own_zeros_;                    ///< by layer whose values travel
  std::vector<std::optional<c10::weak_intrusive_ptr<at::TensorImpl, c10::UndefinedTensorImpl>>> read_;  ///< by layer: the value of it that has a reader
};

}  // namespace ddl
