#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "ddl/collective/communicator.h"
#include "ddl/collective/compressed_all_reduce.h"
#include "ddl/data/loader.h"
#include "ddl/measure/trace.h"
#include "ddl/nn/network.h"
#include "ddl/plan/plan.h"
#include "ddl/train/channels.h"
#include "ddl/train/death_testing.h"
#include "ddl/train/device.h"
#include "ddl/train/gradient_shards.h"
#include "ddl/train/gradients.h"
#include "ddl/train/loss_scale.h"
#include "ddl/train/optimizer.h"
#include "ddl/train/parameter_shards.h"
#include "ddl/train/pass_graphs.h"
#include "ddl/train/recipe.h"
#include "ddl/train/stage_runner.h"
#include "ddl/train/staleness.h"

namespace ddl {

class Replay;
class Slowing;

/// What a step yields on one worker.
struct StepResult {
  /// This worker's part of the mean loss over the global batch: the parts of all workers add up to it.
  double loss = 0;
  std::int64_t samples = 0;  ///< of those whose loss this worker computed
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
  Seconds timeout{60};                ///< for a server of parameters to answer
};

/// What became of the gradients of all steps so far; the same on every worker.
struct UpdateReport {
  std::int64_t updates = 0;
  std::int64_t skipped = 0;   ///< steps whose gradients were not finite; only where the loss is scaled
  std::int64_t clipped = 0;   ///< steps whose gradient's norm was above the limit
  double loss_scale = 1;
};

/// Steps whose passes were graphs of the device.
struct GraphReport {
  std::int64_t steps = 0;
  std::int64_t first = kNone;    ///< the step in which they were last recorded
  double record_seconds = 0;     ///< that recording took, all times together
  std::string why_not = {};      ///< none are recorded, or no more; empty where that is not so
};

/// How far replicas that train alone went apart; each worker's own.
struct AveragingReport {
  std::int64_t averagings = 0;  ///< over all workers
  double last_drift = 0;        ///< before the last of them: |own - mean| / |mean|, of all parameters together
  double largest_drift = 0;     ///< before any
};

/// Runs one worker's tasks of a plan, step after step.
///
/// Tasks of the compute stream run in order on the calling thread. Collectives and messages run on threads of their communicators (channels.h):
/// one is started, in its queue's order, as soon as what it waits for has happened, be it an earlier task or the event that
/// backward raises when a bucket's gradients are complete. Every task leaves a span in the trace.
///
/// On a device that does its work later (device.h) the calling thread only queues it, and waits where it must: for a batch, for a collective
/// whose result is to be used, and at the end of the step for the loss. Spans are of when the device worked: tasks are marked in its order, and
/// the marks' times read when the step is over.
class Executor {
 public:
  using NextBatch = std::function<std::shared_ptr<const Batch>()>;

  /// `communicator` may be null where the plan has neither collectives nor messages. The network has the layers of the worker's stages, on
  /// `device`. All are kept by reference and outlive this object. `shards`: of plans that need them (ParameterShards::needed()); the optimizer
  /// is then of shards->own().
  Executor(Network& network, Optimizer& optimizer, Device& device, Communicator* communicator, int worker, Recipe recipe, Exchange exchange,
           ParameterShards* shards = nullptr);
  ~Executor();

  /// Of an emulated worker, whose network it replays; before adopt(). The optimizer is then not asked for anything.
  void replay_with(Replay& replay) { replay_ = &replay; }

  /// Of a worker that is slower than its processor: passes and updates take so many times as long; before adopt().
  void slow_with(Slowing& slowing) { slowing_ = &slowing; }

  /// Takes a plan, and lays the gradient buckets out as it says. A later one may differ in its buckets alone.
  /// Errors: invalid_argument where verify() finds fault.
  void adopt(Plan plan);

  /// How servers of parameters make their optimizers: before adopt(), where a plan has such.
  using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(std::vector<at::Tensor> parameters)>;
  void serve_with(MakeOptimizer make) { make_server_optimizer_ = std::move(make); }
  /// Gives all workers the parameters that servers have, or the one worker that updates them; nothing else. Collective.
  void converge();
  /// Of this process's server; nothing without one.
  std::optional<StalenessReport> staleness() const;
  /// What the server in this process holds beside its worker: parameters, the optimizer's state, sums. Zeros without one.
  Holdings served() const;

  /// Whether the plan's updates must wait for the whole gradient (StrategyInput::whole_gradient).
  static bool needs_whole_gradient(const Recipe& recipe);

  /// One training step: its batch in as many micro-batches as the plan has.
  /// `peek`: what `next_batch` will give next, null where it is not there yet; in memory that the device reads in place (pinned_memory.h). It is then uploaded beside this step's work, where passes are graphs.
  /// Errors: those of the loader and of collectives; invalid_argument when the loss is not finite, or the gradients
  /// are not whatever the loss is scaled with.
  StepResult step(std::int64_t number, const NextBatch& next_batch, double learning_rate, bool ask_to_stop, const NextBatch& peek = {});

  /// After which step the run ends: tasks that are due then alone (Task::at_end) are done in it. kNone, at first: not known.
  void ends_with(std::int64_t step) { last_step_ = step; }
  /// Whether replicas have gone apart since they were last averaged; the same answer on every worker.
  bool differs() const { return differs_; }
  const AveragingReport& averaging() const { return averaging_; }

  /// The order in which the last step's gradients became complete; empty without buckets.
  std::vector<int> observed_order() const;
  /// Null where gradients go into no buckets, or are replayed.
  const GradientBuckets* buckets() const { return replay_ == nullptr ? buckets_.get() : nullptr; }
  const GradientShards* gradient_shards() const { return replay_ == nullptr ? gradient_shards_.get() : nullptr; }

  const Plan& plan() const { return plan_; }
  const Role& role() const { return plan_.role_of(worker_); }
  /// What the steps since the last call left. `all`: what a device did in the last step, too, whose times it is else asked for while it does the next.
  Trace take_trace(bool all = true);
  void record(const Span& span) { trace_.push_back(span); }
  /// What compression sent and lost since it began; nothing without one.
  std::optional<CompressionReport> compression() const;
  /// Of the groups that it works in, beside the communicator's own.
  Traffic own_traffic() const;
  const UpdateReport& updates() const { return updates_; }
  /// Whether passes may be recorded from now on: not while the plan is still to change. They may at first.
  void let_record(bool may) { may_record_ = may; }
  const GraphReport& graphs() const { return graph_report_; }
  std::int64_t bucket_bytes() const { return buckets_ ? buckets_->bytes() : gradient_shards_ ? gradient_shards_->slot_bytes() : 0; }
  /// Of the gradients of parameters that are in no bucket, or of the worker's parts of them.
  std::int64_t gradient_bytes() const;

 private:
  struct Step;
  /// A span whose times are not known yet.
  struct Pending {
    Moment begin, end;
    Span span;
  };
  struct Asynchronous;
  struct Servers;
  /// Tasks that run one after the other on a thread of their own.
  struct Queue {
    std::vector<int> tasks;
    std::size_t next = 0;  ///< to be started
  };

  void find_waited_at_once();
  void adopt_buckets();
  void adopt_compression();
  void prepare(Step& step);
  void run_tasks(Step& step);
  void run(Step& step, int number);
  Range samples_of(const Step& step, const Task& task) const;
  void record_passes(Step& step);
  void forward(Step& step, const Task& task);
  void backward(Step& step, int number);
  double squares_of_gradient(bool own_alone);
  void judge_gradient(Step& step);
  void update(Step& step, const Task& task);
  void replay_update(const Task& task);

  void start_ready(Step& step);
  bool may_start(const Step& step, const Task& task) const;
  bool is_done(const Step& step, int number) const;
  void start(Step& step, int number);
  void start_transfer(Step& step, int number);
  void start_collective(Step& step, int number);
  Start how_to_start(const Step& step) const;
  void start_move(Step& step, int number);
  void settle_moves(Step& step);
  void start_control(Step& step, int number);
  bool is_raised(const Step& step, const Task& task) const;

  void adopt_shards();
  void begin_shards(Step& step);
  bool make_room(Step& step, int bucket);
  void start_sharded(Step& step, int number);
  void adopt_norms();
  at::Tensor gradient_of(std::size_t parameter);
  void start_norms(Step& step, int number);
  void add_norms(const Task& task);
  void apply(const Step& step, const std::vector<std::size_t>& parameters, const std::vector<at::Tensor>& gradients);
  void update_shard(Step& step, const Task& task);
  void start_mean(Step& step, int number);
  void start_exchange(Step& step, int number);
  at::Tensor held(const Task& task, int parameter) const;
  void gather(Step& step, const Task& task);
  void average(Step& step, int number);
  void find_due(Step& step);
  double word_of_replicas(const Step& step) const;
  double votes_of_replicas(Step& step);
  void adopt_serving();
  void start_serving(Step& step, int number);
  void take(int bucket);
  Incoming place_of_parameters(int server);
  double votes_of_servers() const;
  /// Of replicas that are threads of one process (executor_in_process.cpp).
  void start_inputs(Step& step, int number);
  void take_batch(Step& step);
  void start_at_root(Step& step, int number);
  void replicate();
  void complete(Step& step, int number);
  void arrive(Step& step, int number);
  void drop_sent(Step& step);

  // Of asynchronous plans.
  void begin_buckets(Step& step);
  std::int64_t samples_with_loss(const Step& step) const;
  StepResult step_asynchronous(std::int64_t number, const NextBatch& next_batch, double learning_rate, bool ask_to_stop);
  std::vector<Task> tasks_of_step(std::int64_t number) const;
  void load_ahead(Step& step, std::int64_t batch);
  void leave(Step& step);
  void settle_sent(bool all);
  void start_late_control(Step& step, int number);

  std::array<double, 3> control_of(Step& step);
  Span communication_span(const Step& step, int number) const;
  void tell(Span span, const std::vector<Handle>& handles);
  const Batch& batch_of(const Step& step, const Task& task) const;
  Span span(std::int64_t step, int task, Cause cause, Nanoseconds begin = 0, Nanoseconds end = 0) const;
  std::uint32_t meeting_of(const Task& task) const;
  /// A span between two moments; told of at once where they have passed, else when the step is over.
  void record(Step& step, const Moment& begin, const Moment& end, Span span);
  void tell_pending(std::vector<Pending>& pending);
  double read_loss(Step& step);

  Network& network_;
  Optimizer& optimizer_;
  Device& device_;
  Replay* replay_ = nullptr;            ///< of an emulated worker
  Slowing* slowing_ = nullptr;          ///< of one that is slower than its processor
  Communicator* communicator_;
  int worker_;
  TestDeath death_;
  Recipe recipe_;
  Exchange exchange_;
  std::optional<LossScale> loss_scale_;
  UpdateReport updates_;
  Plan plan_;
  bool has_loss_ = true;                ///< holds the last stage
  int control_task_ = kNone;
  std::array<double, 3> control_{};     ///< votes to stop, 0 or NaN for the loss, squares of the gradient
  std::vector<int> compute_tasks_, communication_tasks_;
  std::vector<bool> waited_at_once_;    ///< by task
  std::vector<Queue> queues_;
  std::vector<std::size_t> queue_of_;   ///< by task that communicates
  std::vector<std::size_t> unbucketed_; ///< the network's parameters that are in no bucket
  std::vector<std::size_t> bucketed_;   ///< those that are, in the order of GradientBuckets
  std::map<int, std::size_t> among_bucketed_;  ///< by a parameter's number: its place in that order
  std::vector<std::size_t> owned_;      ///< those that no worker before this one has
  std::unique_ptr<StageRunner> runner_;
  // Of passes that are graphs of the device.
  bool may_record_ = true;
  std::map<std::int64_t, std::int64_t> alike_;  ///< by samples of this worker: how many steps had so many since the plan was adopted
  std::unique_ptr<PassGraphs> graphs_;
  GraphReport graph_report_;
  std::unique_ptr<Channels> channels_;
  std::unique_ptr<GradientBuckets> buckets_;
  std::unique_ptr<Communicator> compressed_group_;
  std::unique_ptr<CompressedAllReduce> compressed_;
  std::vector<BucketLayout> layouts_;   ///< of the buckets, for the compression
  std::unique_ptr<Asynchronous> asynchronous_;
  ParameterShards* shards_;
  std::unique_ptr<GradientShards> gradient_shards_;
  // Of whole parameters' norms, where a worker has pieces of them (executor_norms.cpp).
  NormsOfParts* part_norms_ = nullptr;  ///< the optimizer, if it reads such
  std::vector<bool> first_piece_;       ///< by the network's parameters: no part before this worker's has the same piece
  std::vector<double> norms_;           ///< by parameter two, of all workers once they are exchanged
  Trace trace_;
  std::vector<Pending> late_;            ///< of the last step
  // Of replicas that train alone (executor_average.cpp).
  std::int64_t last_step_ = kNone;
  bool differs_ = false;
  double own_weight_ = 0, global_weight_ = 0;  ///< of the samples since the last averaging
  bool gossips_ = false;
  int stop_in_ = 0;                            ///< exchanges of gossip until all stop, this one included; 0: nobody asked
  bool failing_ = false;                       ///< then all fail, some loss not being finite
  std::optional<std::pair<std::int64_t, double>> failed_;  ///< the first step whose own loss was not finite, and that
  std::map<int, at::Tensor> received_;         ///< by task, on the host
  AveragingReport averaging_;
  // Of parameters that live with servers (executor_serving.cpp).
  MakeOptimizer make_server_optimizer_;
  std::unique_ptr<Servers> servers_;           ///< null without any
  // Of replicas of which one updates: a batch to be filled by it.
  std::shared_ptr<Batch> shared_out_;
};

}  // namespace ddl
