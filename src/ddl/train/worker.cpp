#include "ddl/train/worker.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <optional>
#include <utility>

#include <ATen/Parallel.h>

#include "ddl/core/error.h"
#include "ddl/measure/affinity.h"
#include "ddl/measure/host_time.h"
#include "ddl/nn/found_openblas.h"
#include "ddl/nn/model.h"
#include "ddl/nn/multiplier.h"
#include "ddl/nn/script.h"
#include "ddl/strategy/batch_shares.h"
#include "ddl/strategy/bucketing.h"
#include "ddl/strategy/split_parts.h"
#include "ddl/train/allocator.h"
#include "ddl/train/assemble.h"
#include "ddl/train/bucket_tuner.h"
#include "ddl/train/death_testing.h"
#include "ddl/train/device.h"
#include "ddl/train/emulation/machine_costs.h"
#include "ddl/train/emulation/replay.h"
#include "ddl/train/emulation/replayed_optimizer.h"
#include "ddl/train/evaluate.h"
#include "ddl/train/executor.h"
#include "ddl/train/failure.h"
#include "ddl/train/held_memory.h"
#include "ddl/train/host_share.h"
#include "ddl/train/in_process.h"
#include "ddl/train/job_network.h"
#include "ddl/train/learning_rate.h"
#include "ddl/train/make_communicator.h"
#include "ddl/train/memory_ledger.h"
#include "ddl/train/parameter_shards.h"
#include "ddl/train/pinned_memory.h"
#include "ddl/train/pinning.h"
#include "ddl/train/plan_job.h"
#include "ddl/train/precision.h"
#include "ddl/train/slowing.h"

namespace ddl {
namespace {

/// Steps are told in batches, so that telling costs nothing within one.
constexpr Nanoseconds kTellEvery = 100'000'000;

std::int64_t bytes_of(const std::vector<at::Tensor>& tensors) {
  std::int64_t bytes = 0;
  for (const auto& tensor : tensors) bytes += static_cast<std::int64_t>(tensor.nbytes());
  return bytes;
}

class Worker {
 public:
  Worker(const Job& job, int rank, const DatasetPair& data, Control& control, const Pinning& pinning);
  void train();
  /// Sends what was not sent yet; a coordinator that is gone does not mind.
  void flush() noexcept;
  /// Where there is no memory for more.
  Shortage shortage();

 private:
  /// Before the first step. Ranks that compute the same are to have the same bits: all multiply matrices as rank 0 does.
  void share_multipliers();
  void rebuild_buckets();
  /// After a step that took so long: the next way to exchange buckets where one is sought.
  void tune_buckets(Nanoseconds took, std::int64_t step);
  /// Threads that it starts use whatever core is idle.
  void adopt(Plan plan);
  void adopt_buckets();
  void tell(bool now_or_never);
  /// After `step`. Returns whether some worker was asked to stop while it evaluated.
  bool finish_epoch(std::int64_t epoch, std::int64_t step, bool evaluated);
  bool asked_to_stop();
  bool some_stop(bool stopped);
  /// Rank 0 tells how far something other than a step is, now and then.
  void tell_phase(const char* phase, std::int64_t done, std::int64_t of);
  /// The buckets as they lie at the end, in the order in which they are reduced.
  Json buckets_json() const;
  /// What is computed and kept in which format, and what became of the gradients.
  Json precision_json() const;
  /// How many bytes of gradients were copied in the last step; null where they go into no buckets.
  Json gradients_json() const;
  /// Of steps whose passes were graphs; null on processors, and where none were asked for.
  Json graphs_json() const;
  /// How well computing was emulated; null where it is not.
  Json emulation_json() const;
  /// What of its machine's cores it had.
  Json cores_json() const;
  /// Of training, where tensors held so much at most. An emulated worker's is planned: what the host has of it says nothing of the device.
  Json memory_json(std::int64_t held);
  void finish(bool stopped);
  /// Who holds how many bytes; activations are what is left of `held`, of all that tensors take.
  Holdings holdings(std::int64_t held, std::int64_t gradients);
  /// Of the gradients that there are, outside of buckets. Bytes.
  std::int64_t gradient_bytes();

  const Job& job_;
  int rank_;
  const DatasetPair& data_;
  Control& control_;
  const Pinning& pinning_;
  TestDeath death_;
  int ranks_;
  std::unique_ptr<Device> device_;
  PinnedMemory pinned_;    ///< of batches
  ModelGraph graph_;
  Plan plan_;              ///< but for the order of gradients in buckets, the executor's
  Network network_;
  Nanoseconds network_built_;
  std::unique_ptr<Communicator> communicator_;
  std::unique_ptr<ParameterShards> shards_;  ///< where the plan needs them
  std::unique_ptr<Optimizer> optimizer_;
  Nanoseconds margin_;                       ///< of an emulated worker's waits
  std::shared_ptr<const CostSource> costs_;  ///< of an emulated worker; else null
  std::unique_ptr<Replay> replay_;           ///< the same
  std::shared_ptr<SharedWaits> served_;      ///< of the server of parameters that lives with an emulated worker; else null
  std::optional<Slowing> slowing_;           ///< of one that is slower than its processor
  Executor executor_;
  Sampler sampler_;
  std::int64_t last_step_;
  LearningRate learning_rate_;

  std::vector<int> gradient_order_;          ///< in which gradients come; empty before the first step, and where it is as planned
  std::optional<BucketTuner> tuner_;

  bool stop_asked_ = false;
  std::vector<StepRecord> steps_;
  Trace spans_;
  Nanoseconds told_ = 0;
  double epoch_loss_ = 0;
  std::int64_t epoch_steps_ = 0;
  std::int64_t steps_done_ = 0;
  std::int64_t static_bytes_ = 0;
  MemoryLedger memory_;
  HeldMemory held_;
  HostShare host_;
};

std::string option_of(const Job& job, const std::string& name, const std::string& otherwise) {
  const auto found = job.strategy.options.find(name);
  return found == job.strategy.options.end() ? otherwise : found->second;
}

/// Nothing where every sample counts one.
std::function<std::int64_t(std::int64_t)> weights_of(const Dataset& dataset) {
  if (dataset.shape().objective == Objective::classification) return {};
  return [&dataset](std::int64_t index) { return dataset.weight(index); };
}

bool updates(const Role& role) {
  return std::any_of(role.tasks.begin(), role.tasks.end(), [](const Task& task) { return task.kind == TaskKind::update && task.stream == Stream::compute; });
}

const WorkerSpec& worker_of(const Job& job, int rank) { return job.workers.at(static_cast<std::size_t>(rank)); }

/// An emulated worker's keeps nothing.
std::unique_ptr<Optimizer> optimizer_of(const Job& job, int rank, std::vector<at::Tensor> parameters) {
  if (worker_of(job, rank).emulated()) return std::make_unique<ReplayedOptimizer>(std::move(parameters), 0, std::make_shared<SharedWaits>(sleeping_clock(0)));
  return job_optimizer(job, std::move(parameters));
}

/// How long before the end of a wait it spins. Many workers on few cores would have most of these for spinning, four times a step, while others have real work; each spins in proportion the less, and is woken the later, which does not add up.
Nanoseconds spinning_margin(const Job& job) {
  const auto emulated = std::count_if(job.workers.begin(), job.workers.end(), [](const WorkerSpec& worker) { return worker.emulated(); });
  const auto cores = static_cast<Nanoseconds>(affinity().size());
  return wake_up_margin() * std::min<Nanoseconds>(cores, emulated) / std::max<Nanoseconds>(1, emulated);
}

Recipe recipe_of(const Job& job, const SampleShape& shape) {
  return {shape, job.precision, job.label_smoothing, job.recompute, job.clip, wants_graphs(job)};
}

Worker::Worker(const Job& job, int rank, const DatasetPair& data, Control& control, const Pinning& pinning)
    : job_(job),
      rank_(rank),
      data_(data),
      control_(control),
      pinning_(pinning),
      death_(rank),
      ranks_(static_cast<int>(job.workers.size())),
      device_(make_device(job.workers.at(static_cast<std::size_t>(rank)).device, device_options(job))),
      pinned_(*device_),
      graph_(make_model(job.model, data.train->shape())),
      plan_(plan_job(job, graph_)),
      network_(StageRunner::prepare(graph_of(plan_, graph_, rank), plan_.stages), network_options(job, *device_, layers_of(plan_, rank))),
      network_built_(now()),
      communicator_([&] { const auto roaming = pinning.roam(); return make_communicator(job, rank, control); }()),
      shards_(ParameterShards::needed(plan_, rank) ? std::make_unique<ParameterShards>(plan_, rank, network_, communicator_->transport(), *device_) : nullptr),
      // What the optimizer keeps is with whoever updates: a server, or one worker for all.
      optimizer_(optimizer_of(job, rank, !updates(plan_.role_of(rank)) ? std::vector<at::Tensor>{} : shards_ ? shards_->own() : network_.parameters())),
      margin_(worker_of(job, rank).emulated() ? spinning_margin(job) : 0),
      costs_(worker_of(job, rank).emulated() ? emulated_costs(job, rank) : nullptr),
      replay_(costs_ ? std::make_unique<Replay>(network_, plan_, costs_, rank, worker_of(job, rank).slow, job.precision, sleeping_clock(margin_)) : nullptr),
      executor_(network_, *optimizer_, *device_, communicator_.get(), rank, recipe_of(job, data.train->shape()),
                {collective_of(job), option_of(job, "compress", "none"), job.seed, job.collective_timeout}, shards_.get()),
      sampler_(data.train->size(), job.batch, plan_.shares(), job.shuffle, job.seed, weights_of(*data.train), batch_shares(job.strategy)),
      last_step_(job.steps > 0 ? job.steps : job.epochs * sampler_.steps_per_epoch()),
      learning_rate_(job.learning_rate_schedule, job.learning_rate, last_step_, sampler_.steps_per_epoch()),
      memory_(*device_, !plan_.in_process || rank == 0),
      held_(last_step_) {
  if (replay_) executor_.replay_with(*replay_);
  if (const auto& own = worker_of(job, rank); !own.emulated() && own.slow > 1) executor_.slow_with(slowing_.emplace(own.slow));
  executor_.serve_with([this](std::vector<at::Tensor> parameters) -> std::unique_ptr<Optimizer> {
    if (!costs_) return job_optimizer(job_, std::move(parameters));
    const auto bytes = std::max<std::int64_t>(1, bytes_of(parameters));
    const double takes = worker_of(job_, rank_).slow * costs_->update(rank_, bytes) / static_cast<double>(bytes);
    served_ = std::make_shared<SharedWaits>(sleeping_clock(margin_));
    return std::make_unique<ReplayedOptimizer>(std::move(parameters), takes, served_);
  });
  adopt(plan_);
  executor_.ends_with(last_step_ - 1);
  // Whatever draws without being told by what: dropout in a TorchScript file.
  at::manual_seed(job.seed * 65'537 + static_cast<std::uint64_t>(rank));
  static_bytes_ = device_->memory().current;
}

void Worker::share_multipliers() {
  if (!chooses_multipliers(job_)) return;
  // Who computes on the same is to compute the same bits; on another processor, or with other threads, each has what was measured there.
  const auto chosen = multipliers();
  std::array<std::int64_t, 3> first{multiplying_machine(), chosen.onednn_from, chosen.openblas_from};
  const auto own = first.front();
  if (communicator_) communicator_->broadcast({reinterpret_cast<std::byte*>(first.data()), first.size(), ElementType::int64}, 0).wait();
  if (own == first.front()) use_multipliers({first[1], first[2]});
}

/// Once, after the first step: buckets in the order in which gradients really come. Rank 0's order counts, since every
/// rank must have the same. Of stages, each has an order that only its workers know: theirs stays as it was planned; so does that of
/// buckets whose parts have an owner.
void Worker::rebuild_buckets() {
  if (shards_ || plan_.stages.size() > 1 || executor_.role().buckets.empty()) return;
  const auto observed = executor_.observed_order();
  std::vector<std::int64_t> order(observed.begin(), observed.end());
  communicator_->broadcast({reinterpret_cast<std::byte*>(order.data()), order.size(), ElementType::int64}, 0).wait();
  gradient_order_.assign(order.begin(), order.end());
  if (tunes_buckets(job_.strategy)) {
    tuner_.emplace(bucketings(job_.strategy, graph_.parameters() * element_bytes(job_.precision)), last_step_ - 1);
    executor_.let_record(!tuner_->tries());
  }
  adopt_buckets();
}

void Worker::adopt(Plan plan) {
  const auto roaming = pinning_.roam();
  executor_.adopt(std::move(plan));
}

void Worker::adopt_buckets() {
  if (!tuner_) return adopt(plan_job(job_, graph_, gradient_order_));
  auto own = job_;
  own.strategy = with_bucketing(own.strategy, tuner_->way());
  adopt(plan_job(own, graph_, gradient_order_));
}

void Worker::tune_buckets(Nanoseconds took, std::int64_t step) {
  if (!tuner_ || !tuner_->tries()) return;
  // The last of an epoch may have fewer samples, and the one after an evaluation finds other things in caches: all workers know alike.
  const bool evaluated = job_.evaluate && step % sampler_.steps_per_epoch() == 0 && sampler_.steps_per_epoch() > 1;
  if (evaluated || sampler_.global_samples(step) != sampler_.global_samples(0)) return tuner_->skip();
  const auto way = tuner_->way();
  tuner_->add(seconds(took));
  if (tuner_->round_is_over()) {
    auto& all = tuner_->round();
    communicator_->all_reduce({reinterpret_cast<std::byte*>(all.data()), all.size(), ElementType::fp64}, ReduceOp::max).wait();
    tuner_->judge();
    executor_.let_record(!tuner_->tries());
  }
  if (tuner_->way() != way) adopt_buckets();
}

bool Worker::asked_to_stop() {
  if (!stop_asked_)
    if (const auto message = control_.receive({0})) stop_asked_ = message->type == MessageType::stop;
  return stop_asked_;
}

/// Servers that wait for nobody tell each worker by itself to stop: one may have come to the end of an epoch before, and knows only here.
bool Worker::some_stop(bool stopped) {
  if (plan_.serving.servers == 0 || plan_.serving.sums) return stopped;
  std::int64_t votes = stopped ? 1 : 0;
  communicator_->all_reduce({reinterpret_cast<std::byte*>(&votes), 1, ElementType::int64}, ReduceOp::sum).wait();
  return votes > 0;
}

void Worker::tell(bool now_or_never) {
  auto fresh = executor_.take_trace(now_or_never);
  spans_.insert(spans_.end(), fresh.begin(), fresh.end());
  if (steps_.empty() || (!now_or_never && now() - told_ < kTellEvery)) return;
  control_.send(MessageType::steps, pack(steps_, spans_));
  steps_.clear();
  spans_.clear();
  told_ = now();
}

void Worker::flush() noexcept {
  try {
    tell(true);
  } catch (...) {
  }
}

bool Worker::finish_epoch(std::int64_t epoch, std::int64_t step, bool evaluated) {
  bool stopped = false;
  death_.at("epoch");
  executor_.converge();
  tell(true);
  memory_.note_training();
  Json message{{"epoch", epoch}, {"loss", epoch_loss_ / static_cast<double>(std::max<std::int64_t>(1, epoch_steps_))}};
  if (job_.emulates()) {
    // Parameters mean nothing: there is no model to tell of.
    message["loss"] = nullptr;
    control_.send(MessageType::epoch, message.dump());
    return stopped;
  }
  const WholeParameters gathered(shards_.get(), communicator_.get());
  // Of replicas that have gone apart it is their mean that is told of and evaluated; they themselves train on as they are.
  std::optional<Network> whole;
  if (executor_.differs()) {
    whole.emplace(graph_, network_options(job_, *device_));
    average_replicas(network_, *device_, *communicator_, *whole);
  }
  message["parameters_digest"] = parameters_digest(plan_, rank_, graph_, whole ? *whole : network_, *device_, communicator_.get());
  if (evaluated) {
    // Of a network in parts each worker has a whole one for the while, so that all evaluate at once.
    if (is_in_parts(plan_)) {
      whole.emplace(graph_, network_options(job_, *device_));
      assemble(plan_, rank_, network_, *device_, *communicator_, *whole);
    }
    const auto result = evaluate(whole ? *whole : network_, *device_, *data_.test, communicator_.get(),
                                 {{job_.loader_threads, job_.loader_prefetch, true, [this] { pinning_.release_this_thread(); }}, job_.precision, [&] { return asked_to_stop(); },
                                  [&](std::int64_t done, std::int64_t of) {
                                    death_.at("evaluate");
                                    tell_phase("evaluating", done, of);
                                  },
                                  evaluation_batch(graph_, element_bytes(job_.precision), largest_pass(job_, plan_))});
    stopped = !result.complete;
    if (result.complete && !std::isfinite(result.loss))
      throw Error(Code::invalid_argument, fmt::format("[worker] loss is not finite on the test set after step {}; got {}", step, result.loss));
    if (result.complete) {
      message["test_loss"] = result.loss;
      for (const auto& [key, value] : {std::pair{"top1", result.top1}, {"top5", result.top5}, {"tokens", result.tokens}, {"bleu", result.bleu}})
        if (value) message[key] = *value;
    }
  }
  epoch_loss_ = 0;
  epoch_steps_ = 0;
  control_.send(MessageType::epoch, message.dump());
  return stopped;
}

void Worker::tell_phase(const char* phase, std::int64_t done, std::int64_t of) {
  if (rank_ != 0 || now() - told_ < kTellEvery) return;
  control_.send(MessageType::phase, Json{{"phase", phase}, {"done", done}, {"of", of}}.dump());
  told_ = now();
}

void Worker::train() {
  const auto per_epoch = sampler_.steps_per_epoch();
  control_.send(MessageType::ready, Json{{"network_built_ns", network_built_},
                                         {"connected_ns", now()},
                                         {"steps", last_step_},
                                         {"steps_per_epoch", per_epoch}}.dump());
  if (plan_.in_process && communicator_ && !device_->is_host()) {
    // What all of the process's workers hold from now on, which is told with rank 0.
    communicator_->barrier().wait();
    static_bytes_ = device_->memory().current;
  }
  share_multipliers();
  memory_.reset_peaks();
  if (communicator_) communicator_->barrier().wait();

  const auto& stages = plan_.role_of(rank_).stages;
  const bool reads = !is_given_inputs(plan_, rank_) && std::any_of(stages.begin(), stages.end(), [&](int stage) { return needs_batch(network_.graph(), plan_.stages, stage); });
  LoaderOptions loading{reads ? job_.loader_threads : 0, job_.loader_prefetch, reads, [this] { pinning_.release_this_thread(); }};
  const bool in_place = reads_batches_in_place(plan_, *device_);
  if (in_place) loading.memory = &pinned_;
  Loader loader(*data_.train, [&](std::int64_t step) { return sampler_.share(step, plan_.share_of(rank_)); }, 0, last_step_, loading);
  const Executor::NextBatch next_batch = [&] { return loader.next(); };
  const auto peek = in_place ? Executor::NextBatch([&] { return pinned_.refused() ? nullptr : loader.peek(); }) : Executor::NextBatch();
  bool stopped = false;
  host_.begin();
  for (std::int64_t step = 0; step < last_step_ && !stopped; ++step) {
    StepRecord record;
    record.step = step;
    record.begin = now();
    const double core_seconds = own_core_seconds();
    const auto result = executor_.step(step, next_batch, learning_rate_.at(step), asked_to_stop(), peek);
    const auto worked = now();
    stopped = result.stop;
    ++steps_done_;
    held_.after_step(step);
    epoch_loss_ += result.loss;
    ++epoch_steps_;
    if (step == 0) rebuild_buckets();
    else tune_buckets(worked - record.begin, step);
    const bool epoch_over = (step + 1) % per_epoch == 0;
    tell(false);
    record.end = now();
    record.core_seconds = own_core_seconds() - core_seconds;
    record.loss = result.loss;
    record.samples = result.samples;
    steps_.push_back(record);
    executor_.record({worked, record.end, static_cast<std::int32_t>(step), kNone, static_cast<std::int16_t>(rank_),
                      Stream::compute, Cause::harness});
    const bool pauses = epoch_over || step + 1 == last_step_ || stopped;
    if (pauses) stopped = some_stop(stopped);
    if (pauses) stopped |= finish_epoch(step / per_epoch, step, job_.evaluate && !stopped);
    // Evaluated or not: what was whole for the digest, and is gone only now, is none of a step's.
    if (pauses && !job_.emulates()) memory_.note_evaluation();
  }
  finish(stopped);
}

Json compression_json(const std::optional<CompressionReport>& report) {
  if (!report) return nullptr;
  return {{"sent_bytes", report->sent.value}, {"uncompressed_bytes", report->uncompressed.value}, {"relative_error", report->relative_error()}};
}

/// How far this worker was from the mean of all before averagings; nothing where replicas do not go apart.
Json averaging_json(const Executor& executor) {
  if (executor.plan().local_from == kNone) return nullptr;
  const auto& report = executor.averaging();
  return {{"averagings", report.averagings}, {"last_drift", report.last_drift}, {"largest_drift", report.largest_drift}};
}

/// Of the server in this process; nothing without one.
Json staleness_json(const Executor& executor) {
  const auto report = executor.staleness();
  if (!report) return nullptr;
  const auto pairs = [](const std::map<std::int64_t, std::int64_t>& counts) {
    Json all = Json::array();
    for (const auto& [stale, count] : counts) all.push_back({stale, count});
    return all;
  };
  return {{"updates", report->updates},
          {"largest_steps", report->largest_clocks},
          {"mean_steps", report->mean_clocks},
          {"by_steps", pairs(report->by_clocks)},
          {"largest_updates", report->largest_updates},
          {"mean_updates", report->mean_updates},
          {"by_updates", pairs(report->by_updates)}};
}

Json Worker::buckets_json() const {
  const auto specs = graph_.parameter_specs();
  Json buckets = Json::array();
  // Ranks that sum a bucket: of a mesh, those of one group.
  const auto among = [&](int number) {
    for (const auto& task : executor_.role().tasks)
      if (task.kind == TaskKind::collective && task.cargo == Cargo::gradients && task.bucket == number) return static_cast<int>(members(plan_.mesh, plan_.groups.at(static_cast<std::size_t>(task.group)), rank_).size());
    return ranks_;
  };
  for (const auto& bucket : executor_.role().buckets) {
    Json inside = Json::array();
    for (const int parameter : bucket.parameters) inside.push_back(specs.at(static_cast<std::size_t>(parameter)).name);
    const auto asked = collective_of(job_);
    const auto taken = asked != "auto" ? asked
                                       : automatic_algorithm(job_, shards_ ? Goal::reduce_scatter : Goal::all_reduce, static_cast<std::size_t>(bucket.bytes), among(static_cast<int>(buckets.size())),
                                                             communicator_->transport().shares_memory());
    // With servers bucket s is what server s has.
    const auto moved = plan_.serving.servers > 0 ? fmt::format("server {}", buckets.size()) : taken;
    buckets.push_back({{"bytes", bucket.bytes}, {"algorithm", moved}, {"parameters", inside}});
  }
  return buckets;
}

Json Worker::precision_json() const {
  const auto& updates = executor_.updates();
  const char* const kept = element_bytes(job_.precision) == 8 ? "fp64" : "fp32";
  return {{"compute", job_.precision},
          {"parameters", kept},
          {"gradients", kept},
          {"loss_scale", scales_loss(job_.precision) ? Json(updates.loss_scale) : Json(nullptr)},
          {"updates", updates.updates},
          {"skipped_steps", updates.skipped}};
}

std::int64_t Worker::gradient_bytes() {
  std::int64_t bytes = 0;
  for (const auto& parameter : network_.parameters())
    if (parameter.grad().defined()) bytes += static_cast<std::int64_t>(parameter.grad().nbytes());
  return bytes;
}

Holdings Worker::holdings(std::int64_t held, std::int64_t gradients) {
  // Parts of gradients were there from the beginning.
  const auto fresh = shards_ ? 0 : gradients;
  // Whose activations they are cannot be told of a device that a process's workers share.
  if (plan_.in_process && !device_->is_host() && rank_ > 0) held = 0;
  const auto served = executor_.served();
  const auto parameters = (shards_ ? shards_->bytes() : bytes_of(network_.parameters())) + bytes_of(network_.frozen()) + bytes_of(network_.buffers());
  return {parameters + served.parameters, gradients, optimizer_->state_bytes() + served.optimizer,
          executor_.bucket_bytes() + served.buckets, std::max<std::int64_t>(0, held - static_bytes_ - fresh)};
}

Shortage Worker::shortage() {
  // At the most that was held: unwinding has freed the activations that were in the way.
  const auto use = device_->memory();
  const auto holds = holdings(use.peak, gradient_bytes());
  return {holds, use, false, memory_.json(holds, use.peak)};
}

Json Worker::memory_json(std::int64_t held) {
  const auto& planned = plan_.role_of(rank_).holds;
  auto json = replay_ ? memory_.json(planned, held) : memory_.json(holdings(held, executor_.gradient_bytes()), held);
  json.update(held_.json());
  if (!replay_) return json;
  json["device_peak"] = planned.total();
  json["planned"] = true;
  return json;
}

Json Worker::gradients_json() const {
  const auto told = [](const auto* gathered) { return Json{{"bytes", gathered->gradient_bytes()}, {"copied_bytes", gathered->copied_bytes()}, {"widened_bytes", gathered->widened_bytes()}}; };
  if (const auto* const buckets = executor_.buckets()) return told(buckets);
  if (const auto* const shards = executor_.gradient_shards()) return told(shards);
  return nullptr;
}

Json Worker::graphs_json() const {
  if (!wants_graphs(job_) || device_->is_host()) return nullptr;
  auto report = executor_.graphs();
  if (report.steps == 0 && report.why_not.empty()) report.why_not = "no size of batch came often enough after the plan had its last form: three steps go before";
  return {{"steps", report.steps}, {"first_step", report.first < 0 ? Json(nullptr) : Json(report.first)}, {"record_ms", report.record_seconds * 1e3}, {"why_not", report.why_not.empty() ? Json(nullptr) : Json(report.why_not)}};
}

Json Worker::emulation_json() const {
  if (!replay_) return nullptr;
  const auto steps = static_cast<double>(std::max<std::int64_t>(1, steps_done_));
  const auto told = [&](const TimedWaits::Report& report) {
    return Json{{"waits", report.waits},
                {"late_us", {{"median", report.late_median * 1e6}, {"p95", report.late_p95 * 1e6}, {"max", report.late_max * 1e6}}},
                {"compute_ms", report.compute * 1e3 / steps},
                {"taken_ms", report.taken * 1e3 / steps},
                {"late_share", report.compute > 0 ? report.taken / report.compute - 1 : 0}};
  };
  auto json = told(replay_->waits().report());
  json["spin_us"] = static_cast<double>(margin_) * 1e-3;
  json["server"] = served_ ? told(served_->report()) : Json();
  return json;
}

Json Worker::cores_json() const {
  auto json = host_.json();
  json.update(pinning_.json());
  return json;
}

void Worker::finish(bool stopped) {
  death_.at("end");
  memory_.note_training();
  const auto held = memory_.training_peak();
  // Stopped while it evaluated, between two averagings.
  if (executor_.differs() && !job_.emulates()) average_replicas(network_, *device_, *communicator_, network_);
  auto traffic = communicator_ ? communicator_->transport().traffic() : Traffic{};
  traffic.sent += executor_.own_traffic().sent;
  traffic.received += executor_.own_traffic().received;
  const WholeParameters gathered(job_.emulates() ? nullptr : shards_.get(), communicator_.get());
  control_.send(MessageType::done, Json{{"stopped", stopped},
                                        {"parameters_digest", job_.emulates() ? Json(nullptr) : Json(parameters_digest(plan_, rank_, graph_, network_, *device_, communicator_.get()))},
                                        {"memory_bytes", memory_json(held)},
                                        {"gradients", gradients_json()},
                                        {"graphs", graphs_json()},
                                        {"emulation", emulation_json()},
                                        {"cores", cores_json()},
                                        {"accelerator", device_->describe()},
                                        {"bytes_sent", traffic.sent},
                                        {"bytes_received", traffic.received},
                                        {"buckets", buckets_json()},
                                        {"bucket_tuning", tuner_ ? tuner_->json() : Json(nullptr)},
                                        {"precision", precision_json()},
                                        {"multipliers", chooses_multipliers(job_) ? to_json(multipliers()) : Json(nullptr)},
                                        {"clipped_steps", job_.clip > 0 ? Json(executor_.updates().clipped) : Json(nullptr)},
                                        {"averaging", averaging_json(executor_)},
                                        {"staleness", staleness_json(executor_)},
                                        {"compression", compression_json(executor_.compression())}}.dump());
  // Nobody tears its transport down while a peer still reads from it.
  if (communicator_) communicator_->barrier().wait();
}

/// The ledger that the job's plan foresees, where there is not enough for the parts that a worker is made of.
Shortage planned_shortage(const Job& job, int rank, const DatasetPair& data) {
  const auto holds = plan_job(job, make_model(job.model, data.train->shape())).role_of(rank).holds;
  return {holds, make_device(job.workers.at(static_cast<std::size_t>(rank)).device)->memory(), true, to_json(holds)};
}

}  // namespace

void prepare_for_threads(const Job& job) {
  if (chooses_multipliers(job)) has_openblas();
}

int run_worker(const Job& job, int rank, const DatasetPair& data, Control& control) {
  TestDeath(rank).at("setup");
  std::optional<Pinning> pinning;
  std::optional<Worker> worker;
  try {
    at::set_num_threads(job.workers.at(static_cast<std::size_t>(rank)).threads);
    pinning.emplace(job, rank);
    if (chooses_multipliers(job)) multipliers();
    install_allocator(kernels(job) == Kernels::fast);
    if (is_in_process(job)) open_allocator_account(rank + 1);
    worker.emplace(job, rank, data, control, *pinning);
    worker->train();
    return 0;
  } catch (const std::exception& error) {
    std::optional<Shortage> shortage;
    if (is_out_of_memory(error)) shortage = worker ? worker->shortage() : planned_shortage(job, rank, data);
    // What was complete is kept, whatever ended the rest.
    if (worker) worker->flush();
    worker.reset();
    tell_failure(control, error, shortage);
    return 1;
  }
}

}  // namespace ddl
