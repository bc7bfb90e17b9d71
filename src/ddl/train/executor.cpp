#include "ddl/train/executor.h"

#include <cmath>
#include <numeric>
#include <utility>

#include <torch/csrc/autograd/autograd.h>

#include "ddl/core/error.h"
#include "ddl/core/text.h"

namespace ddl {

/// What one step knows while it runs.
struct Executor::Step {
  std::int64_t number = 0;
  const NextBatch& next_batch;
  double learning_rate = 0;
  const std::vector<Task>& tasks;
  std::shared_ptr<const Batch> batch = {};
  at::Tensor images = {}, labels = {}, loss = {};
  std::vector<bool> done = {};            ///< by task
  std::vector<bool> raised = {};          ///< by bucket
  std::vector<Handle> handles = {};       ///< by task
  std::size_t next_collective = 0;
};

Executor::Executor(Network& network, Sgd& optimizer, Communicator* communicator, int worker, Exchange exchange)
    : network_(network), optimizer_(optimizer), communicator_(communicator), worker_(worker), exchange_(std::move(exchange)) {}

void Executor::adopt(Plan plan) {
  const auto findings = verify(plan, static_cast<int>(network_.parameters().size()));
  if (!findings.empty())
    throw Error(Code::invalid_argument, fmt::format("[executor] plan '{}' is not sound: {}", plan.strategy, join(findings, "; ")));
  plan_ = std::move(plan);
  compute_tasks_.clear();
  collective_tasks_.clear();
  const auto& tasks = plan_.role_of(worker_).tasks;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (tasks[i].kind == TaskKind::send || tasks[i].kind == TaskKind::receive)
      throw Error(Code::unsupported, fmt::format("[executor] unsupported: task '{}' is a {}", tasks[i].label, name(tasks[i].kind)));
    (tasks[i].kind == TaskKind::collective ? collective_tasks_ : compute_tasks_).push_back(static_cast<int>(i));
  }
  if (plan_.buckets.empty()) return;
  invariant(communicator_ != nullptr, "a plan with buckets has a communicator");
  if (!buckets_) buckets_ = std::make_unique<GradientBuckets>(network_.parameters(), communicator_->transport());
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

StepResult Executor::step(std::int64_t number, const NextBatch& next_batch, double learning_rate, bool ask_to_stop) {
  Step step{number, next_batch, learning_rate, plan_.role_of(worker_).tasks};
  step.done.assign(step.tasks.size(), false);
  step.handles.resize(step.tasks.size());
  step.raised.assign(plan_.buckets.size(), false);
  if (buckets_) buckets_->set_control(ask_to_stop ? 1 : 0);

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
  result.loss = step.loss.defined() ? step.loss.item<double>() / static_cast<double>(step.batch->global_weight) : 0.0;
  if (!std::isfinite(result.loss))
    throw Error(Code::invalid_argument, fmt::format("[executor] loss is not finite at step {}; got {}", number, result.loss));
  result.stop = buckets_ ? buckets_->control() > 0 : ask_to_stop;
  return result;
}

void Executor::run(Step& step, int number) {
  const auto& task = step.tasks[static_cast<std::size_t>(number)];
  const auto begin = now();
  switch (task.kind) {
    case TaskKind::load:
      step.batch = step.next_batch();
      if (!step.batch) throw Error(Code::invalid_argument, fmt::format("[executor] no batch for step {}", step.number));
      break;
    case TaskKind::forward: forward(step); break;
    case TaskKind::backward: backward(step); break;
    case TaskKind::update: update(step, task); break;
    case TaskKind::send:
    case TaskKind::receive:
    case TaskKind::collective: break;  // adopt() let none of these onto the compute stream
  }
  trace_.push_back(span(step.number, number, cause_of(task.kind), begin, now()));
}

void Executor::forward(Step& step) {
  const auto& batch = *step.batch;
  if (batch.samples == 0) return;
  const auto& shape = network_.graph().layers[0].shape;
  const auto begin = now();
  // Autograd reads the loader's memory; the batch is kept until the step is over.
  step.images = at::from_blob(const_cast<float*>(batch.images.data()), {batch.samples, shape[0], shape[1], shape[2]}, at::kFloat)
                    .to(network_.parameters()[0].options().requires_grad(false), false, false, network_.memory_format());
  step.labels = at::from_blob(const_cast<std::int64_t*>(batch.labels.data()), {batch.samples}, at::kLong)
                    .to(step.images.device());
  trace_.push_back(span(step.number, kNone, Cause::copy, begin, now()));
  step.loss = at::cross_entropy_loss(network_.forward({step.images}, true).logits, step.labels, {}, at::Reduction::Sum);
}

void Executor::backward(Step& step) {
  if (buckets_)
    buckets_->begin_step(
        [&](int bucket) {
          step.raised[static_cast<std::size_t>(bucket)] = true;
          start_collectives(step);
        },
        [&](Nanoseconds begin, Nanoseconds end) { trace_.push_back(span(step.number, kNone, Cause::copy, begin, end)); });
  if (step.loss.defined()) {
    // The loss is a sum; dividing its gradient by what the samples of all workers count makes the sum over workers the gradient of
    // the mean over the global batch, however unequal their shares are.
    const auto weight = at::full({}, 1.0 / static_cast<double>(step.batch->global_weight), step.loss.options().requires_grad(false));
    torch::autograd::backward({step.loss}, {weight});
    step.loss = step.loss.detach();
  }
  if (buckets_) buckets_->complete_step();
}

void Executor::update(Step& step, const Task& task) {
  auto& parameters = network_.parameters();
  if (task.bucket != kNone) {
    for (const int i : plan_.buckets[static_cast<std::size_t>(task.bucket)].parameters)
      optimizer_.update(static_cast<std::size_t>(i), buckets_->gradient(i), step.learning_rate);
    return;
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    auto& gradient = parameters[i].mutable_grad();
    if (!gradient.defined()) continue;  // no samples in this step
    optimizer_.update(i, gradient, step.learning_rate);
    gradient.reset();
  }
}

void Executor::finish_dependencies(Step& step, const Task& task) {
  for (const int other : task.after) {
    const auto& handle = step.handles[static_cast<std::size_t>(other)];
    if (!handle.valid() || step.done[static_cast<std::size_t>(other)]) continue;
    const auto begin = now();
    handle.wait();
    step.done[static_cast<std::size_t>(other)] = true;
    trace_.push_back(span(step.number, other, Cause::communication, begin, now()));
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
    step.handles[static_cast<std::size_t>(number)] =
        compressed_ ? compressed_->start(bucket, buckets_->buffer(task.bucket), ReduceOp::sum, 1, layouts_[bucket])
                    : communicator_->all_reduce(buckets_->buffer(task.bucket), ReduceOp::sum, exchange_.collective);
  }
}

std::vector<int> Executor::observed_order() const { return buckets_ ? buckets_->observed_order() : std::vector<int>{}; }

Trace Executor::take_trace() { return std::exchange(trace_, {}); }

}  // namespace ddl
