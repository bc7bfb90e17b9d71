#include "ddl/train/executor.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "ddl/core/error.h"
#include "ddl/core/numbers.h"
#include "ddl/core/text.h"
#include "ddl/plan/meetings.h"
#include "ddl/plan/occasion.h"
#include "ddl/strategy/split_parts.h"
#include "ddl/train/assemble.h"
#include "ddl/train/emulation/replay.h"
#include "ddl/train/executor_asynchronous.h"
#include "ddl/train/executor_serving.h"
#include "ddl/train/graphable.h"
#include "ddl/train/precision.h"
#include "ddl/train/slowing.h"

namespace ddl {
namespace {

/// Steps of one size that are computed as they are before its passes are recorded: by then cuDNN has timed its ways, and libraries have made their work areas.
constexpr std::int64_t kStepsBeforeGraphs = 3;

/// Of parameters.
constexpr bool completes_gradients(TaskKind kind) { return kind == TaskKind::backward || kind == TaskKind::backward_weight; }

}  // namespace

Executor::Executor(Network& network, Optimizer& optimizer, Device& device, Communicator* communicator, int worker, Recipe recipe, Exchange exchange, ParameterShards* shards)
    : network_(network),
      optimizer_(optimizer),
      device_(device),
      communicator_(communicator),
      worker_(worker),
      death_(worker),
      recipe_(std::move(recipe)),
      exchange_(std::move(exchange)),
      shards_(shards) {
  if (!scales_loss(recipe_.precision)) return;
  loss_scale_.emplace(LossScale::Rule{});
  updates_.loss_scale = loss_scale_->value();
}

Executor::~Executor() = default;

bool Executor::needs_whole_gradient(const Recipe& recipe) { return recipe.clip > 0 || scales_loss(recipe.precision); }

void Executor::adopt(Plan plan) {
  const auto findings = verify(plan, static_cast<int>(network_.graph().parameter_specs().size()));
  if (!findings.empty())
    throw Error(Code::invalid_argument, fmt::format("[executor] plan '{}' is not sound: {}", plan.strategy, join(findings, "; ")));
  plan_ = std::move(plan);
  number_meetings(plan_);
  const auto& own = role();
  compute_tasks_.clear();
  communication_tasks_.clear();
  queues_.clear();
  control_task_ = kNone;
  gossips_ = plan_.serving.servers == 0 && std::any_of(own.tasks.begin(), own.tasks.end(), [](const Task& task) { return is_transfer(task) && task.cargo == Cargo::parameters; });
  // All parts of a split network compute the same loss: the first one's counts.
  has_loss_ = std::find(own.stages.begin(), own.stages.end(), static_cast<int>(plan_.stages.size()) - 1) != own.stages.end() && plan_.part_of(worker_) == 0;
  for (int i = 0; i < static_cast<int>(own.tasks.size()); ++i) {
    const auto& task = own.tasks[static_cast<std::size_t>(i)];
    (communicates(task) ? communication_tasks_ : compute_tasks_).push_back(i);
    if (task.kind == TaskKind::collective && task.cargo == Cargo::control) control_task_ = i;
  }
  find_waited_at_once();
  queue_of_.assign(own.tasks.size(), 0);
  for (auto& [key, tasks] : communication_queues(own)) {
    for (const int task : tasks) queue_of_[static_cast<std::size_t>(task)] = queues_.size();
    queues_.push_back({tasks});
  }
  if (!runner_) runner_ = std::make_unique<StageRunner>(network_, device_, recipe_, plan_, replay_);
  if (!channels_) channels_ = std::make_unique<Channels>(plan_, worker_, communicator_);
  // Of the buckets' places as they were.
  graphs_.reset();
  alike_.clear();
  if (recipe_.graphs && graph_report_.why_not.empty()) graph_report_.why_not = replay_ != nullptr ? "passes are replayed" : !device_.why_no_graphs().empty() ? device_.why_no_graphs() : why_no_pass_graphs(plan_, worker_, network_.graph());
  adopt_buckets();
  adopt_norms();
  if (plan_.asynchronous() && !asynchronous_) asynchronous_ = std::make_unique<Asynchronous>(plan_, worker_, network_, optimizer_);
  adopt_serving();
}

/// Exchanges of parts that the very next thing to compute needs: another thread would be woken for them, and this one put to sleep and woken again. Others are not hidden behind anything by that: moves are settled before any
/// other wait.
void Executor::find_waited_at_once() {
  const auto& tasks = role().tasks;
  waited_at_once_.assign(tasks.size(), false);
  for (std::size_t c = 1; c < compute_tasks_.size(); ++c)
    for (const int other : tasks[static_cast<std::size_t>(compute_tasks_[c])].after) {
      const auto& task = tasks[static_cast<std::size_t>(other)];
      if (task.kind != TaskKind::collective || task.layer == kNone) continue;
      waited_at_once_[static_cast<std::size_t>(other)] = std::find(task.after.begin(), task.after.end(), compute_tasks_[c - 1]) != task.after.end();
    }
}

void Executor::adopt_buckets() {
  const auto& own = role();
  const auto& numbers = network_.parameter_numbers();
  std::map<int, std::size_t> place;  // of a parameter among the network's
  for (std::size_t i = 0; i < numbers.size(); ++i) place[numbers[i]] = i;
  const auto specs = network_.graph().parameter_specs();
  const auto holders = first_holders(plan_, static_cast<int>(specs.size()));
  const auto axes = axes_of(plan_);
  std::vector<bool> in_bucket(numbers.size());
  for (const auto& bucket : own.buckets)
    for (const int parameter : bucket.parameters) in_bucket[place.at(parameter)] = true;
  bucketed_.clear();
  unbucketed_.clear();
  owned_.clear();
  first_piece_.clear();
  among_bucketed_.clear();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (in_bucket[i]) among_bucketed_[numbers[i]] = bucketed_.size();
    (in_bucket[i] ? bucketed_ : unbucketed_).push_back(i);
    // The first parts that have a piece have it for all, and each shard a part of its own of everything.
    const int first_part = first_with(axes, specs[static_cast<std::size_t>(numbers[i])], plan_.part_of(worker_));
    first_piece_.push_back(first_part == plan_.part_of(worker_));
    const int own_place = plan_.mesh.coordinate("sharded", worker_) * plan_.parts() + first_part;
    if (holders[static_cast<std::size_t>(numbers[i])] + own_place == worker_) owned_.push_back(i);
  }
  if (own.buckets.empty()) return;
  if (shards_ != nullptr) return adopt_shards();
  invariant(communicator_ != nullptr, "a plan with buckets has a communicator");
  auto buckets = own.buckets;
  for (auto& bucket : buckets)
    for (int& parameter : bucket.parameters) parameter = static_cast<int>(among_bucketed_.at(parameter));
  if (!buckets_) {
    std::vector<at::Tensor> parameters;
    for (const auto i : bucketed_) parameters.push_back(network_.parameters()[i]);
    buckets_ = std::make_unique<GradientBuckets>(std::move(parameters), communicator_->transport(), device_, replay_);
  }
  buckets_->arrange(buckets);
  received_.clear();
  adopt_compression();
}

/// Collective: a compression works in a group of its own, and forgets what it kept of buckets that are cut anew.
void Executor::adopt_compression() {
  if (exchange_.compression == "none") return;
  const auto& own = role();
  const auto specs = network_.graph().parameter_specs();
  layouts_.clear();
  for (const auto& bucket : own.buckets) {
    BucketLayout layout;
    for (const int parameter : bucket.parameters) {
      const auto& spec = specs[static_cast<std::size_t>(parameter)];
      const auto all = static_cast<std::size_t>(spec.elements());
      const auto rows = spec.shape.empty() ? 1 : static_cast<std::size_t>(spec.shape[0]);
      layout.tensors.push_back({rows, rows == 0 ? 0 : all / rows});
    }
    if (bucket.control) layout.exact = 1;  // the vote
    layouts_.push_back(std::move(layout));
  }
  if (compressed_) return compressed_->forget();
  const auto reduces_gradients = [](const Task& task) { return task.kind == TaskKind::collective && task.cargo == Cargo::gradients; };
  auto& group = channels_->of_collective(*std::find_if(own.tasks.begin(), own.tasks.end(), reduces_gradients));
  compressed_group_ = group.group(first_numbers(group.size()));
  compressed_ = std::make_unique<CompressedAllReduce>(*compressed_group_, exchange_.compression, CompressedAllReduceOptions{exchange_.collective, exchange_.seed});
}

std::optional<CompressionReport> Executor::compression() const {
  if (!compressed_) return std::nullopt;
  return compressed_->total();
}

Traffic Executor::own_traffic() const {
  auto sum = channels_ ? channels_->traffic() : Traffic{};
  if (servers_) {
    const auto own = servers_->links->traffic();
    sum.sent += own.sent;
    sum.received += own.received;
  }
  if (compressed_group_) {
    sum.sent += compressed_group_->transport().traffic().sent;
    sum.received += compressed_group_->transport().traffic().received;
  }
  return sum;
}

Span Executor::span(std::int64_t step, int task, Cause cause, Nanoseconds begin, Nanoseconds end) const {
  // What comes before the first step is counted in it.
  return {begin, end, static_cast<std::int32_t>(std::max<std::int64_t>(0, step)), task, static_cast<std::int16_t>(worker_), Stream::compute, cause};
}

void Executor::record(Step& step, const Moment& begin, const Moment& end, Span span) {
  if (!begin.immediate() || !end.immediate()) {
    step.pending.push_back({begin, end, span});
    return;
  }
  span.begin = begin.time();
  span.end = end.time();
  trace_.push_back(span);
}

/// A copy that was over before what it is counted in began is left out: it cost nothing.
void Executor::tell_pending(std::vector<Pending>& pending) {
  for (auto& [begin, end, span] : pending) {
    span.begin = begin.time();
    span.end = end.time();
    if (span.begin <= span.end) trace_.push_back(span);
  }
  pending.clear();
}

/// All work of the step was queued before, so that the device has done it when the loss is here.
double Executor::read_loss(Step& step) {
  if (step.loss_sum.defined() && has_loss_) return fetch(device_, step.loss_sum).item<double>() / static_cast<double>(step.batch->global_weight);
  device_.synchronize();
  return 0;
}

void Executor::prepare(Step& step) {
  step.due.assign(step.tasks.size(), true);
  step.done.assign(step.tasks.size(), false);
  step.started.assign(step.tasks.size(), false);
  step.handles.resize(step.tasks.size());
  step.messages.resize(step.tasks.size());
  step.raised.assign(role().buckets.size(), 0);
  step.there.resize(role().buckets.size());
  for (auto& queue : queues_) queue.next = 0;
}

void Executor::run_tasks(Step& step) {
  for (const int task : compute_tasks_) {
    if (!step.due[static_cast<std::size_t>(task)]) continue;
    for (const int other : step.tasks[static_cast<std::size_t>(task)].after) {
      if (step.tasks[static_cast<std::size_t>(other)].layer == kNone && !is_done(step, other)) settle_moves(step);
      complete(step, other);
    }
    // Of what was sent while it waited, too.
    drop_sent(step);
    run(step, task);
    step.done[static_cast<std::size_t>(task)] = true;
    // Handing messages and collectives over, which may copy what is sent, is time of communication that nothing hides.
    const auto handing = now();
    drop_sent(step);
    start_ready(step);
    constexpr Nanoseconds kWorthTelling = 2'000;
    // On a device that works later it goes on beside what was queued.
    if (const auto handed = now(); device_.is_host() && handed - handing >= kWorthTelling) trace_.push_back(span(step.number, kNone, Cause::communication, handing, handed));
  }
}

void Executor::begin_buckets(Step& step) {
  if (buckets_->has_control()) buckets_->set_control(step.local ? word_of_replicas(step) : step.ask_to_stop ? 1 : 0);
  buckets_->begin_step(
      [&](int bucket, const Moment& there) {
        ++step.raised[static_cast<std::size_t>(bucket)];
        step.there[static_cast<std::size_t>(bucket)] = there;
        start_ready(step);
      },
      [&](Nanoseconds begin, Nanoseconds end) { trace_.push_back(span(step.number, kNone, Cause::copy, begin, end)); }, !step.local);
}

/// Of what a step trained on, the part whose loss this worker computed: workers of one stage have micro-batches of their own.
std::int64_t Executor::samples_with_loss(const Step& step) const {
  std::int64_t sum = 0;
  for (const int task : compute_tasks_) {
    const auto& each = step.tasks[static_cast<std::size_t>(task)];
    if (has_loss_ && completes_gradients(each.kind) && each.stage + 1 == static_cast<int>(plan_.stages.size())) sum += static_cast<std::int64_t>(samples_of(step, each).size());
  }
  return sum;
}

StepResult Executor::step(std::int64_t number, const NextBatch& next_batch, double learning_rate, bool ask_to_stop, const NextBatch& peek) {
  if (asynchronous_) return step_asynchronous(number, next_batch, learning_rate, ask_to_stop);
  Step step{number, next_batch, learning_rate, ask_to_stop, role().tasks, peek ? &peek : nullptr};
  prepare(step);
  find_due(step);
  runner_->begin_step();
  if (!device_.is_host()) device_.synchronize();
  if (buckets_) begin_buckets(step);
  if (gradient_shards_) begin_shards(step);
  start_ready(step);
  run_tasks(step);
  settle_moves(step);
  for (const int task : communication_tasks_) {
    complete(step, task);
    tell(communication_span(step, task), step.handles[static_cast<std::size_t>(task)]);
  }

  // Who updates nothing knows all the same what became of the gradient.
  if (plan_.in_process && control_task_ != kNone && !step.judged) judge_gradient(step);

  runner_->end_step();
  StepResult result;
  result.samples = samples_with_loss(step);
  result.loss = read_loss(step);
  tell_pending(late_);
  std::swap(late_, step.pending);
  const auto not_finite = [&](const std::string& got) { throw Error(Code::invalid_argument, fmt::format("[executor] loss is not finite at step {}; got {}", number, got)); };
  if (!std::isfinite(result.loss)) {
    if (!step.local) not_finite(fmt::format("{}", result.loss));
    if (!failed_) failed_.emplace(number, result.loss);
  }
  const bool in_bucket = buckets_ && buckets_->has_control();
  const double votes = step.local ? votes_of_replicas(step) : servers_ ? votes_of_servers() : in_bucket ? buckets_->control() : control_task_ != kNone ? control_[0] + control_[1] : ask_to_stop ? 1 : 0;
  // Replicas that train alone end where they next meet, so that all of them do.
  if (!std::isfinite(votes) && failed_)
    throw Error(Code::invalid_argument, fmt::format("[executor] loss is not finite at step {}; got {}", failed_->first, failed_->second));
  if (!std::isfinite(votes)) not_finite("that of another worker");
  result.stop = votes > 0;
  result.skipped = step.skipped;
  ++(step.skipped ? updates_.skipped : updates_.updates);
  return result;
}

void Executor::run(Step& step, int number) {
  const auto& task = step.tasks[static_cast<std::size_t>(number)];
  death_.at(step.number, task);
  const auto begin = device_.mark();
  const bool replays = replay_ != nullptr && task.kind != TaskKind::load;
  if (replays) replay_->waits().begin();
  std::optional<Slowing::While> slowly;
  if (slowing_ != nullptr && task.kind != TaskKind::load && task.kind != TaskKind::release) slowly.emplace(slowing_);
  switch (task.kind) {
    case TaskKind::load:
      step.batch = step.next_batch();
      if (replay_ != nullptr) replay_->waits().waited(now() - begin.time());
      if (!step.batch) throw Error(Code::invalid_argument, fmt::format("[executor] no batch for step {}", step.number));
      take_batch(step);
      if (step.local) {
        own_weight_ += static_cast<double>(step.batch->weight);
        global_weight_ += static_cast<double>(step.batch->global_weight);
      }
      // A micro-batch of a small batch may be empty: then another one's backward is the stage's last.
      step.last_backward.assign(plan_.stages.size(), kNone);
      for (const int other : compute_tasks_)
        if (const auto& each = step.tasks[static_cast<std::size_t>(other)]; completes_gradients(each.kind) && samples_of(step, each).size() > 0)
          step.last_backward[static_cast<std::size_t>(each.stage)] = other;
      break;
    case TaskKind::forward: forward(step, task); break;
    case TaskKind::backward:
    case TaskKind::backward_input:
    case TaskKind::backward_weight: backward(step, number); break;
    case TaskKind::update:
      if (asynchronous_ && replay_ == nullptr) asynchronous_->versions.before_update(step.number, runner_->in_flight());
      update(step, task);
      break;
    case TaskKind::release: shards_->release(task.bucket); break;
    case TaskKind::average: average(step, number); break;
    default: throw Error(Code::unsupported, fmt::format("[executor] unsupported: task '{}' is a {}", task.label, name(task.kind)));
  }
  slowly.reset();
  if (replays) replay_->waits().end();
  record(step, begin, device_.mark(), span(step.number, number, cause_of(task.kind)));
  if (recipe_.graphs && task.kind == TaskKind::load) record_passes(step);
}

const Batch& Executor::batch_of(const Step& step, const Task& task) const {
  return asynchronous_ ? *asynchronous_->batches.at(task.micro_batch / plan_.micro_batches) : *step.batch;
}

Range Executor::samples_of(const Step& step, const Task& task) const {
  return part_of(static_cast<std::size_t>(batch_of(step, task).samples), plan_.micro_batches, task.micro_batch % plan_.micro_batches);
}

/// Once enough steps were alike. Where it fails the step, none of which has been computed, goes on as those before it, and so do all after it.
void Executor::record_passes(Step& step) {
  if (!graph_report_.why_not.empty() || step.batch->samples == 0) return;
  if (!graphs_) {
    if (++alike_[step.batch->samples] <= kStepsBeforeGraphs || !may_record_) return;
    std::vector<PassGraphs::Pass> passes;
    for (const int number : compute_tasks_) {
      const auto& task = step.tasks[static_cast<std::size_t>(number)];
      if (task.kind != TaskKind::forward && task.kind != TaskKind::backward) continue;
      if (const auto samples = samples_of(step, task); samples.size() > 0) passes.push_back({&task, samples, step.last_backward[static_cast<std::size_t>(task.stage)] == number});
    }
    const auto begin = now();
    try {
      graphs_ = std::make_unique<PassGraphs>(passes, *step.batch, *runner_, network_, device_, recipe_.shape, buckets_.get());
      graph_report_.first = step.number;
    } catch (const std::exception& error) {
      graph_report_.why_not = fmt::format("step {} could not be recorded: {}", step.number, error.what());
    }
    const auto end = now();
    trace_.push_back(span(step.number, kNone, Cause::harness, begin, end));
    graph_report_.record_seconds += seconds(end - begin);
  }
  step.by_graphs = graphs_ && graphs_->fits(*step.batch);
  if (step.by_graphs) ++graph_report_.steps;
}

void Executor::forward(Step& step, const Task& task) {
  const auto mine = samples_of(step, task);
  if (mine.begin == mine.end) return;
  if (step.by_graphs) {
    graphs_->forward(task, *step.batch, mine);
    if (const auto* const uploaded = graphs_->uploaded()) {
      auto beside = span(step.number, kNone, Cause::copy);
      beside.stream = Stream::loader;
      record(step, uploaded->first, uploaded->second, beside);
    }
    record(step, graphs_->copied().first, graphs_->copied().second, span(step.number, kNone, Cause::copy));
    return;
  }
  // Parameters of a replayed network never change.
  if (asynchronous_ && replay_ == nullptr) asynchronous_->versions.use_for(task.micro_batch / plan_.micro_batches);
  runner_->forward(task, batch_of(step, task), static_cast<std::int64_t>(mine.begin), static_cast<std::int64_t>(mine.end));
  if (asynchronous_ && replay_ == nullptr) asynchronous_->versions.use_newest();
  record(step, runner_->copied().first, runner_->copied().second, span(step.number, kNone, Cause::copy));
}

void Executor::backward(Step& step, int number) {
  const auto& task = step.tasks[static_cast<std::size_t>(number)];
  const auto mine = samples_of(step, task);
  if (mine.begin < mine.end) {
    if (completes_gradients(task.kind) && (buckets_ || gradient_shards_) && !step.by_graphs) {
      const bool last = step.last_backward[static_cast<std::size_t>(task.stage)] == number;
      if (buckets_) buckets_->begin_pass(last);
      if (gradient_shards_) gradient_shards_->begin_pass(last);
    }
    if (const auto lost = step.by_graphs ? graphs_->loss(task) : runner_->loss(task); lost.defined() && task.kind != TaskKind::backward_weight) {
      const auto loss = lost.to(at::kDouble);
      // Of a loss that is not finite, 0 times that is NaN, and so is the sum that all workers get.
      if (buckets_ && buckets_->has_control() && (!gossips_ || step.ends)) buckets_->add_to_control(loss * 0);
      step.loss_sum = step.loss_sum.defined() ? step.loss_sum + loss : loss;
    }
    // The loss is a sum; dividing its gradient by what the samples of all workers count makes the sum over workers and
    // micro-batches the gradient of the mean over the global batch, however unequal their shares are. Who trains alone has a mean of its own.
    const double scale = (loss_scale_ ? loss_scale_->value() : 1) / static_cast<double>(step.local || !plan_.serving.sums ? step.batch->weight : batch_of(step, task).global_weight);
    if (step.by_graphs)
      graphs_->backward(task, scale);
    else if (task.kind == TaskKind::backward_input)
      runner_->backward_input(task, scale);
    else if (task.kind == TaskKind::backward_weight)
      runner_->backward_weight(task, scale);
    else
      runner_->backward(task, scale);
    if (asynchronous_ && buckets_)
      for (std::size_t b = 0; b < bucketed_.size(); ++b)
        if (auto& gradient = network_.parameters()[bucketed_[b]].mutable_grad(); gradient.defined()) buckets_->take(static_cast<int>(b), gradient);
  }
  const auto is_backward = [&](int other) { return completes_gradients(step.tasks[static_cast<std::size_t>(other)].kind); };
  const bool over = number == *std::find_if(compute_tasks_.rbegin(), compute_tasks_.rend(), is_backward);
  if (buckets_ && over) buckets_->complete_step();
  if (over) tell_pending(late_);
  if (step.by_graphs && over && step.peek != nullptr)
    if (auto next = (*step.peek)()) graphs_->upload_ahead(std::move(next));
  if (gradient_shards_) gradient_shards_->complete_pass(task.stage);
  if (gradient_shards_ && over) gradient_shards_->complete_step();
}

std::vector<int> Executor::observed_order() const {
  std::vector<int> order;
  if (!buckets_) return order;
  for (const int place : buckets_->observed_order()) order.push_back(network_.parameter_numbers()[bucketed_[static_cast<std::size_t>(place)]]);
  return order;
}

std::int64_t Executor::gradient_bytes() const {
  std::int64_t bytes = gradient_shards_ ? gradient_shards_->own_bytes() : 0;
  for (const auto i : unbucketed_) bytes += static_cast<std::int64_t>(network_.parameters()[i].nbytes());
  return bytes;
}

Trace Executor::take_trace(bool all) {
  if (all) tell_pending(late_);
  if (servers_ && servers_->server) {
    const auto served = servers_->server->take_trace();
    trace_.insert(trace_.end(), served.begin(), served.end());
  }
  return std::exchange(trace_, {});
}

}  // namespace ddl
