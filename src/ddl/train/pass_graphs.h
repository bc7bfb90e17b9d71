#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "ddl/data/loader.h"
#include "ddl/nn/network.h"
#include "ddl/plan/plan.h"
#include "ddl/train/device.h"
#include "ddl/train/gradients.h"
#include "ddl/train/objective.h"
#include "ddl/train/stage_runner.h"

namespace ddl {

/// The forward and backward passes of a step as graphs of the device: recorded once, then launched with one call each, where queueing their
/// operations one by one takes the host longer than the device takes to do them.
///
/// What differs from step to step lies in tensors that stay, refilled before each launch: samples, labels, words, what dropout draws by, and the
/// scale of the loss's gradient. Gradients are left where the recorded passes put them: in their buckets, or in tensors of the graphs' that
/// become the parameters' gradients once more after the last backward. Buckets leave from within a backward as they do without graphs, each
/// from its milestone on. Exchanges and updates are not recorded.
///
/// The next batch may be on its way to the device meanwhile (upload_ahead()), into tensors from which it comes into those of the recording once these are free.
///
/// Source: NVIDIA, CUDA C++ Programming Guide, "CUDA Graphs"; Nguyen et al., Accelerating PyTorch with CUDA Graphs, 2021.
class PassGraphs {
 public:
  /// A forward or a backward, in the order of the step.
  struct Pass {
    const Task* task;
    Range samples;      ///< of the batch; not empty
    bool last = false;  ///< of backwards: its stage's last
  };

  /// Records the passes of a step with that batch; none of it is computed, and after an error the step can be as if nothing had been recorded. What tasks `passes` are of, and all
  /// that comes after `batch`, are kept by reference. `buckets`: of the gradients, or null.
  /// Errors: c10::Error where something cannot be recorded, or memory lacks.
  PassGraphs(const std::vector<Pass>& passes, const Batch& batch, StageRunner& runner, Network& network, Device& device, const SampleShape& shape, GradientBuckets* buckets);

  ~PassGraphs();

  /// Whether a batch is cut as that one was.
  bool fits(const Batch& batch) const { return batch.samples == batch_samples_; }

  void forward(const Task& task, const Batch& batch, Range samples);
  /// Begins to upload the batch that the next step is of, beside what was launched; where the device has no memory for it beside the graphs, never. The batch is held until
  /// forward() has taken them, or they are there.
  void upload_ahead(std::shared_ptr<const Batch> next);
  /// What the micro-batch lost, a sum.
  at::Tensor loss(const Task& task) const { return micro_batches_.at(task.micro_batch).forward->made().at(0); }
  void backward(const Task& task, double scale);

  /// Moments between which the last forward waited for its samples to be on the device.
  const std::pair<Moment, Moment>& copied() const { return copied_; }
  /// Moments between which it was uploaded ahead; null if it was not.
  const std::pair<Moment, Moment>* uploaded() const { return uploaded_; }

 private:
  struct MicroBatch {
    Range samples = {};
    BatchPart given = {};
    BatchPart ahead = {};                    // of the next batch, or of this one until its forward
    Moment free = Moment();                  // when `ahead` was last read
    std::pair<Moment, Moment> uploaded;      // when it came there
    GradientBuckets::Arrivals arrivals = {};  // outlives the graph that passes its milestones
    std::unique_ptr<DeviceGraph> forward = {}, backward = {};
    bool last = false;
  };

  void record_forward(const Pass& pass);
  void record_backward(const Pass& pass, bool first);
  void let_ahead_go();
  void give_gradients();
  std::vector<at::Tensor> take_gradients();

  StageRunner& runner_;
  Network& network_;
  Device& device_;
  const SampleShape& shape_;
  GradientBuckets* buckets_;
  std::int64_t batch_samples_;
  at::Tensor scale_;                      ///< a scalar, fp64, on the device
  std::map<int, MicroBatch> micro_batches_;
  const DeviceGraph* first_ = nullptr;    ///< whose memory all share
  std::vector<std::size_t> with_gradients_;  ///< parameters that the last backward recorded left gradients with, in no bucket
  std::vector<at::Tensor> gradients_;     ///< by parameter; undefined of those that are in buckets
  GradientBuckets::Arrivals* before_ = nullptr;
  bool uploads_ahead_ = true;
  bool has_ahead_ = false;                ///< there are tensors for it
  std::shared_ptr<const Batch> ahead_;    ///< that was uploaded ahead, and which micro-batches have not all taken yet
  std::size_t left_ = 0;                  ///< of its micro-batches
  std::pair<Moment, Moment> copied_;
  const std::pair<Moment, Moment>* uploaded_ = nullptr;
};

}  // namespace ddl
