#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "ddl/collective/communicator.h"
#include "ddl/collective/compressed_all_reduce.h"
#include "ddl/data/loader.h"
#include "ddl/measure/trace.h"
#include "ddl/nn/network.h"
#include "ddl/plan/plan.h"
#include "ddl/train/gradients.h"
#include "ddl/train/loss_scale.h"
#include "ddl/train/optimizer.h"

namespace ddl {

/// What a step yields on one worker.
struct StepResult {
  /// This worker's part of the mean loss over the global batch: the parts of all workers add up to it.
  double loss = 0;
  std::int64_t samples = 0;
  /// Some worker asked in this step to stop after it; the same answer on every worker.
  bool stop = false;
  /// The parameters stayed as they were, since some gradient was not finite; the same answer on every worker.
  bool skipped = false;
};

/// How gradients are exchanged.
struct Exchange {
  std::string collective = "auto";    ///< all-reduce algorithm
  std::string compression = "none";   ///< of builtin_compressions(), with options
  std::uint64_t seed = 1;             ///< of what a compression draws
};

/// What a step computes, and how exactly.
struct Recipe {
  SampleShape shape = {};           ///< of the data set
  std::string precision = "fp32";   ///< as jobs name it; the network's parameters are of element_bytes(precision)
  double label_smoothing = 0;
  bool recompute = false;           ///< activations, in backward
  double clip = 0;                  ///< the largest norm of the gradient of all parameters together; 0: any
};

/// What became of the gradients of all steps so far; the same on every worker.
struct UpdateReport {
  std::int64_t updates = 0;
  std::int64_t skipped = 0;   ///< steps whose gradients were not finite; only where the loss is scaled
  std::int64_t clipped = 0;   ///< steps whose gradient's norm was above the limit
  double loss_scale = 1;
};

/// Runs one worker's tasks of a plan, step after step.
///
/// Tasks of the compute stream run in order on the calling thread. Collectives run on the communicator's thread: one is
/// started, in the plan's order, as soon as what it waits for has happened, be it an earlier task or the event that
/// backward raises when a bucket's gradients are complete. Every task leaves a span in the trace.
class Executor {
 public:
  using NextBatch = std::function<std::shared_ptr<const Batch>()>;

  /// `communicator` may be null where the plan has no collectives. All are kept by reference and outlive this object.
  Executor(Network& network, Optimizer& optimizer, Communicator* communicator, int worker, Recipe recipe, Exchange exchange);

  /// Takes a plan, and lays the gradient buckets out as it says. Errors: invalid_argument where verify() finds fault.
  void adopt(Plan plan);

  /// Whether the plan's updates must wait for the whole gradient (StrategyInput::whole_gradient).
  static bool needs_whole_gradient(const Recipe& recipe);

  /// One training step: its batch in as many micro-batches as the plan has forward tasks.
  /// Errors: those of the loader and of collectives; invalid_argument when the loss is not finite, or the gradients
  /// are not whatever the loss is scaled with.
  StepResult step(std::int64_t number, const NextBatch& next_batch, double learning_rate, bool ask_to_stop);

  /// The order in which the last step's gradients became complete; empty without buckets.
  std::vector<int> observed_order() const;

  const Plan& plan() const { return plan_; }
  /// What the steps since the last call left.
  Trace take_trace();
  void record(const Span& span) { trace_.push_back(span); }
  /// What compression sent and lost since it began; nothing without one.
  std::optional<CompressionReport> compression() const;
  /// Of the group that compression works in, beside the communicator's own.
  Traffic compressed_traffic() const;
  const UpdateReport& updates() const { return updates_; }
  std::int64_t bucket_bytes() const { return buckets_ ? buckets_->bytes() : 0; }

 private:
  struct Step;
  void adopt_compression();
  void run(Step& step, int number);
  void forward(Step& step, const Task& task);
  void backward(Step& step, const Task& task);
  void judge_gradient(Step& step);
  void update(Step& step, const Task& task);
  void finish_dependencies(Step& step, const Task& task);
  void start_collectives(Step& step);
  bool may_start(const Step& step, const Task& task) const;
  Span span(std::int64_t step, int task, Cause cause, Nanoseconds begin, Nanoseconds end) const;

  Network& network_;
  Optimizer& optimizer_;
  Communicator* communicator_;
  int worker_;
  Recipe recipe_;
  Exchange exchange_;
  std::optional<LossScale> loss_scale_;
  UpdateReport updates_;
  int micro_batches_ = 1;
  std::vector<std::size_t> cuts_;       ///< where recomputed segments begin and end; empty: none
  std::unique_ptr<Communicator> compressed_group_;
  std::unique_ptr<CompressedAllReduce> compressed_;
  std::vector<BucketLayout> layouts_;   ///< of the buckets, for the compression
  Plan plan_;
  std::vector<int> compute_tasks_, collective_tasks_;
  std::unique_ptr<GradientBuckets> buckets_;
  Trace trace_;
};

}  // namespace ddl
