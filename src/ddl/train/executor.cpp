#include "ddl/train/executor.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <torch/csrc/autograd/autograd.h>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/plan/schedule.h"
#include "ddl/train/autocast.h"
#include "ddl/train/objective.h"
#include "ddl/train/precision.h"
#include "ddl/train/recompute.h"

namespace ddl {
namespace {

/// Halved so often, the loss itself no longer counts in fp16: something else is wrong.
constexpr double kLeastLossScale = 1e-6;

}  // namespace

/// What one step knows while it runs.
struct Executor::Step {
  std::int64_t number = 0;
  const NextBatch& next_batch;
  double learning_rate = 0;
  const std::vector<Task>& tasks;
  std::shared_ptr<const Batch> batch = {};
  at::Tensor loss = {};                   ///< of the micro-batch between its forward and its backward
  at::Tensor loss_sum = {};               ///< of all micro-batches so far, fp64
  bool judged = false;                    ///< the whole gradient: the two below are known
  bool skipped = false;
  double gradient_scale = 1;              ///< what makes of the gradients that came those that count
  std::vector<bool> done = {};            ///< by task
  std::vector<bool> raised = {};          ///< by bucket
  std::vector<Moment> there = {};         ///< by bucket: when its gradients are where the collective reads them
  std::vector<Handle> handles = {};       ///< by task
  struct Pending {
    Moment begin, end;
    Span span;
  };
  std::vector<Pending> pending = {};      ///< spans whose times are not known yet
  std::size_t next_collective = 0;
};

Executor::Executor(Network& network, Optimizer& optimizer, Device& device, Communicator* communicator, int worker, Recipe recipe, Exchange exchange)
    : network_(network),
      optimizer_(optimizer),
      device_(device),
      communicator_(communicator),
      worker_(worker),
      recipe_(std::move(recipe)),
      exchange_(std::move(exchange)) {
  if (recipe_.recompute) cuts_ = recompute_cuts(network_);
  if (!scales_loss(recipe_.precision)) return;
  loss_scale_.emplace(LossScale::Rule{});
  updates_.loss_scale = loss_scale_->value();
}

bool Executor::needs_whole_gradient(const Recipe& recipe) { return recipe.clip > 0 || scales_loss(recipe.precision); }

void Executor::adopt(Plan plan) {
  const auto findings = verify(plan, static_cast<int>(network_.parameters().size()));
  if (!findings.empty())
    throw Error(Code::invalid_argument, fmt::format("[executor] plan '{}' is not sound: {}", plan.strategy, join(findings, "; ")));
  plan_ = std::move(plan);
  compute_tasks_.clear();
  collective_tasks_.clear();
  const auto& tasks = plan_.role_of(worker_).tasks;
  micro_batches_ = static_cast<int>(std::count_if(tasks.begin(), tasks.end(), [](const Task& task) { return task.kind == TaskKind::forward; }));
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (tasks[i].kind == TaskKind::send || tasks[i].kind == TaskKind::receive)
      throw Error(Code::unsupported, fmt::format("[executor] unsupported: task '{}' is a {}", tasks[i].label, name(tasks[i].kind)));
    (tasks[i].kind == TaskKind::collective ? collective_tasks_ : compute_tasks_).push_back(static_cast<int>(i));
  }
  if (plan_.buckets.empty()) return;
  invariant(communicator_ != nullptr, "a plan with buckets has a communicator");
  if (!buckets_) buckets_ = std::make_unique<GradientBuckets>(network_.parameters(), communicator_->transport(), device_);
  buckets_->arrange(plan_.buckets);
  adopt_compression();
}

/// Collective: a compression works in a group of its own, and forgets what it kept of buckets that are cut anew.
void Executor::adopt_compression() {
  if (exchange_.compression == "none") return;
  layouts_.clear();
  for (const auto& bucket : plan_.buckets) {
    BucketLayout layout;
    for (const int parameter : bucket.parameters) {
      const auto& tensor = network_.parameters()[static_cast<std::size_t>(parameter)];
      const auto all = static_cast<std::size_t>(tensor.numel());
      const auto rows = tensor.dim() > 0 ? static_cast<std::size_t>(tensor.size(0)) : 1;
      layout.tensors.push_back({rows, rows == 0 ? 0 : all / rows});
    }
    layouts_.push_back(std::move(layout));
  }
  layouts_.back().exact = 1;  // the vote
  if (compressed_) return compressed_->forget();
  std::vector<int> everyone(static_cast<std::size_t>(communicator_->size()));
  std::iota(everyone.begin(), everyone.end(), 0);
  compressed_group_ = communicator_->group(everyone);
  compressed_ = std::make_unique<CompressedAllReduce>(*compressed_group_, exchange_.compression, CompressedAllReduceOptions{exchange_.collective, exchange_.seed});
}

std::optional<CompressionReport> Executor::compression() const {
  if (!compressed_) return std::nullopt;
  return compressed_->total();
}

Traffic Executor::compressed_traffic() const { return compressed_group_ ? compressed_group_->transport().traffic() : Traffic{}; }

Span Executor::span(std::int64_t step, int task, Cause cause, Nanoseconds begin, Nanoseconds end) const {
  return {begin, end, static_cast<std::int32_t>(step), task, static_cast<std::int16_t>(worker_), Stream::compute, cause};
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
void Executor::tell_pending(Step& step) {
  for (auto& [begin, end, span] : step.pending) {
    span.begin = begin.time();
    span.end = end.time();
    if (span.begin <= span.end) trace_.push_back(span);
  }
  step.pending.clear();
}

/// All work of the step was queued before, so that the device has done it when the loss is here.
double Executor::read_loss(Step& step) {
  if (step.loss_sum.defined()) return fetch(device_, step.loss_sum).item<double>() / static_cast<double>(step.batch->global_weight);
  device_.synchronize();
  return 0;
}

StepResult Executor::step(std::int64_t number, const NextBatch& next_batch, double learning_rate, bool ask_to_stop) {
  Step step{number, next_batch, learning_rate, plan_.role_of(worker_).tasks};
  step.done.assign(step.tasks.size(), false);
  step.handles.resize(step.tasks.size());
  step.raised.assign(plan_.buckets.size(), false);
  step.there.resize(plan_.buckets.size());
  if (!device_.is_host()) device_.synchronize();
  if (buckets_) {
    buckets_->set_control(ask_to_stop ? 1 : 0);
    buckets_->begin_step(
        [&](int bucket, const Moment& there) {
          step.raised[static_cast<std::size_t>(bucket)] = true;
          step.there[static_cast<std::size_t>(bucket)] = there;
          start_collectives(step);
        },
        [&](Nanoseconds begin, Nanoseconds end) { trace_.push_back(span(step.number, kNone, Cause::copy, begin, end)); });
  }

  for (const int task : compute_tasks_) {
    finish_dependencies(step, step.tasks[static_cast<std::size_t>(task)]);
    run(step, task);
    step.done[static_cast<std::size_t>(task)] = true;
    start_collectives(step);
  }
  for (const int task : collective_tasks_) {
    const auto& handle = step.handles[static_cast<std::size_t>(task)];
    invariant(handle.valid(), "every collective of a sound plan was started");
    handle.wait();
    auto communication = span(number, task, Cause::communication, handle.began(), handle.ended());
    communication.stream = Stream::communication;
    trace_.push_back(communication);
  }

  StepResult result;
  result.samples = step.batch->samples;
  result.loss = read_loss(step);
  tell_pending(step);
  const auto not_finite = [&](const std::string& got) { throw Error(Code::invalid_argument, fmt::format("[executor] loss is not finite at step {}; got {}", number, got)); };
  if (!std::isfinite(result.loss)) not_finite(fmt::format("{}", result.loss));
  if (buckets_ && !std::isfinite(buckets_->control())) not_finite("that of another worker");
  result.stop = buckets_ ? buckets_->control() > 0 : ask_to_stop;
  result.skipped = step.skipped;
  ++(step.skipped ? updates_.skipped : updates_.updates);
  return result;
}

void Executor::run(Step& step, int number) {
  const auto& task = step.tasks[static_cast<std::size_t>(number)];
  const auto begin = device_.mark();
  switch (task.kind) {
    case TaskKind::load:
      step.batch = step.next_batch();
      if (!step.batch) throw Error(Code::invalid_argument, fmt::format("[executor] no batch for step {}", step.number));
      break;
    case TaskKind::forward: forward(step, task); break;
    case TaskKind::backward: backward(step, task); break;
    case TaskKind::update: update(step, task); break;
    case TaskKind::send:
    case TaskKind::receive:
    case TaskKind::collective: break;  // adopt() let none of these onto the compute stream
  }
  record(step, begin, device_.mark(), span(step.number, number, cause_of(task.kind)));
}

void Executor::forward(Step& step, const Task& task) {
  const auto& batch = *step.batch;
  const auto mine = part_of(static_cast<std::size_t>(batch.samples), micro_batches_, task.micro_batch);
  if (mine.begin == mine.end) return;
  const auto begin = device_.mark();
  // On the processor autograd reads the loader's memory; the batch is kept until the step is over.
  const auto given = example(batch, recipe_.shape, static_cast<std::int64_t>(mine.begin), static_cast<std::int64_t>(mine.end), network_, device_);
  record(step, begin, device_.mark(), span(step.number, kNone, Cause::copy));
  const auto output = [&] {
    if (!cuts_.empty()) return forward_with_recompute(network_, cuts_, given.input, recipe_.precision);
    const Autocast autocast(given.expected.device().type(), recipe_.precision);
    return network_.forward(given.input, true);
  }();
  step.loss = loss_sum(output, given.expected, recipe_.label_smoothing);
}

void Executor::backward(Step& step, const Task& task) {
  const std::int64_t micro_batches_with_samples = std::min<std::int64_t>(micro_batches_, step.batch->samples);
  if (step.loss.defined()) {
    if (buckets_) buckets_->begin_pass(task.micro_batch + 1 == micro_batches_with_samples);
    // The loss is a sum; dividing its gradient by what the samples of all workers count makes the sum over workers and
    // micro-batches the gradient of the mean over the global batch, however unequal their shares are.
    const double scale = (loss_scale_ ? loss_scale_->value() : 1) / static_cast<double>(step.batch->global_weight);
    const auto loss = step.loss.detach().to(at::kDouble);
    // Of a loss that is not finite, 0 times that is NaN, and so is the sum that all workers get.
    if (buckets_) buckets_->add_to_control(loss * 0);
    torch::autograd::backward({step.loss}, {at::full({}, scale, step.loss.options().requires_grad(false))});
    step.loss_sum = step.loss_sum.defined() ? step.loss_sum + loss : loss;
    step.loss.reset();
  }
  if (buckets_ && task.micro_batch + 1 == micro_batches_) buckets_->complete_step();
}

/// Once a step, where an update depends on more than its own gradient: one pass over all of them gives their norm, which
/// is finite exactly where they all are. Every worker reads the same reduced bits, hence all agree.
/// Clipping: Pascanu, Mikolov & Bengio, On the difficulty of training recurrent neural networks, ICML 2013, algorithm 1;
/// the small number under the norm is torch.nn.utils.clip_grad_norm_'s.
void Executor::judge_gradient(Step& step) {
  constexpr double kTiny = 1e-6;
  step.judged = true;
  if (!needs_whole_gradient(recipe_)) return;
  std::vector<at::Tensor> gradients;
  for (std::size_t i = 0; i < network_.parameters().size(); ++i) {
    const auto& gradient = buckets_ ? buckets_->gradient(static_cast<int>(i)) : network_.parameters()[i].grad();
    if (gradient.defined()) gradients.push_back(gradient);
  }
  const double squares = sum_of_squares(gradients, device_);
  const double scale = loss_scale_ ? loss_scale_->value() : 1;
  if (loss_scale_) {
    step.skipped = !std::isfinite(squares);
    loss_scale_->observe(!step.skipped);
    updates_.loss_scale = loss_scale_->value();
    if (loss_scale_->value() < kLeastLossScale)
      throw Error(Code::invalid_argument, fmt::format("[executor] gradients are not finite at step {} whatever the loss is scaled with; got {}",
                                                      step.number, loss_scale_->value()));
    if (step.skipped) return;
  }
  step.gradient_scale = 1 / scale;
  if (recipe_.clip == 0) return;
  const double norm = std::sqrt(squares) / scale;
  if (norm > recipe_.clip) ++updates_.clipped;
  step.gradient_scale *= std::min(1.0, recipe_.clip / (norm + kTiny));
}

void Executor::update(Step& step, const Task& task) {
  if (!step.judged) judge_gradient(step);
  std::vector<std::size_t> numbers;
  std::vector<at::Tensor> gradients;
  if (task.bucket != kNone) {
    if (step.skipped) return;
    for (const int i : plan_.buckets[static_cast<std::size_t>(task.bucket)].parameters) {
      numbers.push_back(static_cast<std::size_t>(i));
      gradients.push_back(buckets_->gradient(i));
    }
    optimizer_.update(numbers, gradients, step.learning_rate, step.gradient_scale);
    return;
  }
  auto& parameters = network_.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    auto& gradient = parameters[i].mutable_grad();
    // Of one that nothing of this step depends on: what several workers would have in its bucket, so that all train alike.
    if (!gradient.defined()) gradient = at::zeros_like(parameters[i]);
    numbers.push_back(i);
    gradients.push_back(std::exchange(gradient, at::Tensor()));
  }
  if (!step.skipped) optimizer_.update(numbers, gradients, step.learning_rate, step.gradient_scale);
}

/// What of the wait is a copy, to the host and back, stands in the trace as spans within it.
void Executor::finish_dependencies(Step& step, const Task& task) {
  for (const int other : task.after) {
    const auto number = static_cast<std::size_t>(other);
    const auto& handle = step.handles[number];
    if (!handle.valid() || step.done[number]) continue;
    const auto begin = device_.mark();
    handle.wait();
    step.done[number] = true;
    const int bucket = step.tasks[number].bucket;
    const auto back = device_.mark();
    buckets_->receive(bucket);
    const auto end = device_.mark();
    record(step, begin, end, span(step.number, other, Cause::communication));
    if (device_.is_host()) continue;
    record(step, begin, step.there[static_cast<std::size_t>(bucket)], span(step.number, kNone, Cause::copy));
    record(step, back, end, span(step.number, kNone, Cause::copy));
  }
}

bool Executor::may_start(const Step& step, const Task& task) const {
  for (const int other : task.after)
    if (!step.done[static_cast<std::size_t>(other)]) return false;
  return task.waits_for == kNone || step.raised[static_cast<std::size_t>(task.waits_for)];
}

void Executor::start_collectives(Step& step) {
  for (; step.next_collective < collective_tasks_.size(); ++step.next_collective) {
    const int number = collective_tasks_[step.next_collective];
    const auto& task = step.tasks[static_cast<std::size_t>(number)];
    if (!may_start(step, task)) return;
    const auto bucket = static_cast<std::size_t>(task.bucket);
    std::function<void()> ready;
    if (const auto& there = step.there[bucket]; !there.immediate()) ready = [there] { there.wait(); };
    step.handles[static_cast<std::size_t>(number)] =
        compressed_ ? compressed_->start(bucket, buckets_->buffer(task.bucket), ReduceOp::sum, 1, layouts_[bucket], nullptr, Start::now, std::move(ready))
                    : communicator_->all_reduce(buckets_->buffer(task.bucket), ReduceOp::sum, exchange_.collective, Start::now, std::move(ready));
  }
}

std::vector<int> Executor::observed_order() const { return buckets_ ? buckets_->observed_order() : std::vector<int>{}; }

Trace Executor::take_trace() { return std::exchange(trace_, {}); }

}  // namespace ddl
