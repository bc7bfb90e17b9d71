#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/ATen.h>

#include "ddl/core/error.h"
#include "ddl/plan/meetings.h"
#include "ddl/train/emulation/replay.h"
#include "ddl/train/executor_asynchronous.h"
#include "ddl/train/tensor_buffer.h"
#include "ddl/transport/cores.h"

namespace ddl {

std::uint32_t Executor::meeting_of(const Task& task) const {
  if (task.meeting == kNone) return 0;
  // Each worker of a role has a meeting of its own: its number says which of them this is.
  return static_cast<std::uint32_t>(task.meeting * plan_.workers() + channels_->first_member(task) + 1);
}

bool Executor::is_done(const Step& step, int number) const {
  const auto i = static_cast<std::size_t>(number);
  if (step.done[i]) return true;
  // One that is left out is done once what it is after is.
  if (!step.due[i]) return std::all_of(step.tasks[i].after.begin(), step.tasks[i].after.end(), [&](int other) { return is_done(step, other); });
  return step.started[i] && std::all_of(step.handles[i].begin(), step.handles[i].end(), [](const Handle& handle) { return handle.done(); });
}

bool Executor::may_start(const Step& step, const Task& task) const {
  for (const int other : task.after)
    if (!is_done(step, other)) return false;
  return is_raised(step, task);
}

bool Executor::is_raised(const Step& step, const Task& task) const {
  if (task.waits_for == kNone) return true;
  const auto bucket = static_cast<std::size_t>(task.waits_for);
  return step.raised[bucket] > (role().buckets[bucket].every_pass ? task.micro_batch : 0);
}

void Executor::start_ready(Step& step) {
  for (auto& queue : queues_)
    for (; queue.next < queue.tasks.size(); ++queue.next) {
      const int number = queue.tasks[queue.next];
      if (!step.due[static_cast<std::size_t>(number)]) continue;
      if (!may_start(step, step.tasks[static_cast<std::size_t>(number)])) break;
      start(step, number);
    }
}

void Executor::start(Step& step, int number) {
  const auto& task = step.tasks[static_cast<std::size_t>(number)];
  death_.at(step.number, task);
  if (servers_)
    start_serving(step, number);
  else if (task.cargo == Cargo::control)
    asynchronous_ ? start_late_control(step, number) : start_control(step, number);
  else if (task.cargo == Cargo::norms)
    start_norms(step, number);
  else if (gradient_shards_ && task.layer == kNone && !is_transfer(task))
    start_sharded(step, number);
  else if (task.cargo == Cargo::inputs)
    start_inputs(step, number);
  else if (task.kind == TaskKind::collective && has_root(task.goal))
    start_at_root(step, number);
  else if (task.cargo == Cargo::parameters || task.cargo == Cargo::state)
    is_transfer(task) ? start_exchange(step, number) : start_mean(step, number);
  else if (task.layer != kNone)
    start_move(step, number);
  else if (is_transfer(task))
    start_transfer(step, number);
  else
    start_collective(step, number);
  step.started[static_cast<std::size_t>(number)] = true;
}

void Executor::start_transfer(Step& step, int number) {
  const auto i = static_cast<std::size_t>(number);
  const auto& task = step.tasks[i];
  const auto mine = samples_of(step, task);
  if (mine.begin == mine.end) return;
  const bool sends = task.kind == TaskKind::send;
  // What parts have exchanged is taken up before it goes on.
  for (const int other : task.after)
    if (step.tasks[static_cast<std::size_t>(other)].layer != kNone) complete(step, other);
  auto& communicator = channels_->of_transfer(task);
  for (auto& tensor : sends ? runner_->leaving(task) : runner_->arriving(task, static_cast<std::int64_t>(mine.size()))) {
    Step::Message message{tensor};
    if (!device_.is_host()) {
      message.device = tensor;
      message.host = sends ? fetch(device_, tensor) : at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kCPU));
    }
    step.handles[i].push_back(communicator.start(Channels::transfer(), buffer_of(message.host)));
    step.messages[i].push_back(std::move(message));
  }
  if (sends) step.sending.push_back(number);
}

/// What the parts of a split network exchange.
void Executor::start_move(Step& step, int number) {
  const auto i = static_cast<std::size_t>(number);
  const auto& task = step.tasks[i];
  for (const int other : task.after)
    if (is_transfer(step.tasks[static_cast<std::size_t>(other)])) complete(step, other);
  auto move = runner_->begin_exchange(task);
  if (!move) return;  // no samples
  Step::Message message{move->buffer()};
  if (!device_.is_host()) message = {fetch(device_, move->buffer()), move->buffer()};
  auto what = move->collective();
  if (what.goal == Goal::all_reduce) what.algorithm = exchange_.collective;
  step.handles[i].push_back(channels_->of_collective(task).start(what, buffer_of(message.host), waited_at_once_[i] ? Start::at_wait : Start::now));
  step.messages[i].push_back(std::move(message));
  step.moves.emplace(number, std::move(*move));
}

/// Before a wait for anything else: messages of what is being exchanged would not be sent before that is over, and who is waited for may wait for them. The parts
/// are at the same exchange, so that this does not take long.
void Executor::settle_moves(Step& step) {
  if (step.moves.empty()) return;
  while (!step.moves.empty()) complete(step, step.moves.begin()->first);
  start_ready(step);
}

void Executor::start_collective(Step& step, int number) {
  const auto i = static_cast<std::size_t>(number);
  const auto& task = step.tasks[i];
  const auto bucket = static_cast<std::size_t>(task.bucket);
  std::function<void()> ready;
  if (const auto& there = step.there[bucket]; !there.immediate()) ready = [there] { there.wait(); };
  step.handles[i].push_back(
      compressed_ ? compressed_->start(bucket, buckets_->buffer(task.bucket), ReduceOp::sum, 1, layouts_[bucket], nullptr, Start::now, std::move(ready))
                  : channels_->of_collective(task).all_reduce(buckets_->buffer(task.bucket), ReduceOp::sum, exchange_.collective, how_to_start(step), std::move(ready)));
}

/// Once backward has raised every bucket's event the worker has nothing to compute until they are reduced: it may as well reduce the last itself as wake another thread for it and be woken in turn.
Start Executor::how_to_start(const Step& step) const {
  if (!device_.is_host()) return Start::now;
  // Those that are raised last first: of many buckets most are told by one look.
  for (std::size_t b = role().buckets.size(); b-- > 0;)
    if (step.raised[b] < (role().buckets[b].every_pass ? plan_.micro_batches : 1)) return Start::now;
  return Start::at_wait;
}

/// What everybody must know of everybody, where no bucket of gradients goes to all.
std::array<double, 3> Executor::control_of(Step& step) {
  std::array<double, 3> values{step.ask_to_stop ? 1.0 : 0.0, 0, needs_whole_gradient(recipe_) ? squares_of_gradient(true) : 0};
  if (step.loss_sum.defined() && !std::isfinite(fetch(device_, step.loss_sum).item<double>())) values[1] = std::numeric_limits<double>::quiet_NaN();
  return values;
}

void Executor::start_control(Step& step, int number) {
  // Each part of the gradient is to be where it is counted.
  if (gradient_shards_ || plan_.in_process || needs_whole_gradient(recipe_))
    for (const int other : step.tasks[static_cast<std::size_t>(number)].after) complete(step, other);
  control_ = control_of(step);
  step.handles[static_cast<std::size_t>(number)].push_back(channels_->of_collective(step.tasks[static_cast<std::size_t>(number)])
                                                               .all_reduce({reinterpret_cast<std::byte*>(control_.data()), control_.size(), ElementType::fp64}, ReduceOp::sum));
}

/// Waits until a task is done whose result is about to be used. What of the wait is a copy, to the host and back, stands in the trace as spans
/// within it.
void Executor::complete(Step& step, int number) {
  const auto i = static_cast<std::size_t>(number);
  if (step.done[i]) return;
  const auto& task = step.tasks[i];
  if (!step.due[i]) {
    for (const int other : task.after) complete(step, other);
    return;
  }
  const auto begin = device_.mark();
  // It may be behind others of its queue, and those behind what nobody has waited for yet.
  while (communicates(task) && !step.started[i]) {
    auto& queue = queues_[queue_of_[i]];
    const int next = queue.tasks[queue.next];
    if (step.due[static_cast<std::size_t>(next)]) {
      const auto& first = step.tasks[static_cast<std::size_t>(next)];
      for (const int other : first.after) complete(step, other);
      invariant(is_raised(step, first), "every collective of a sound plan can be started");
      start(step, next);
    }
    ++queue.next;
  }
  const auto before = now();
  {
    const PatientWait patient;
    for (const auto& handle : step.handles[i]) handle.wait();
  }
  if (replay_ != nullptr) replay_->waits().waited(now() - before);
  step.done[i] = true;
  const auto back = device_.mark();
  arrive(step, number);
  const auto end = device_.mark();
  // Of a pipeline's stages alone: replicas that gather and scatter wait for each other, not for work.
  const bool of_stages = task.kind == TaskKind::receive && task.cargo != Cargo::parameters && task.cargo != Cargo::state && !plan_.in_process;
  auto exposed = span(step.number, number, of_stages ? Cause::bubble : Cause::communication);
  exposed.meeting = meeting_of(task);
  record(step, begin, end, exposed);
  if (device_.is_host()) return;
  if (task.cargo == Cargo::gradients) record(step, begin, step.there[static_cast<std::size_t>(task.bucket)], span(step.number, kNone, Cause::copy));
  record(step, back, end, span(step.number, kNone, Cause::copy));
}

void Executor::arrive(Step& step, int number) {
  const auto& task = step.tasks[static_cast<std::size_t>(number)];
  auto& messages = step.messages[static_cast<std::size_t>(number)];
  if ((task.kind == TaskKind::receive || task.layer != kNone) && !device_.is_host())
    // Those of gossip are taken where they are averaged.
    for (auto& message : messages)
      if (message.device.defined()) device_.upload_into(message.device, message.host);
  messages.clear();
  if (const auto move = step.moves.find(number); move != step.moves.end()) {
    runner_->end_exchange(task, move->second);
    step.moves.erase(move);
  }
  if (task.kind != TaskKind::collective) return;
  if (task.cargo == Cargo::norms) return add_norms(task);
  if (gradient_shards_ && task.cargo == Cargo::gradients) {
    if (task.goal == Goal::reduce_scatter) gradient_shards_->take_reduced(task.bucket);
    return;
  }
  if (gradient_shards_ && task.cargo == Cargo::parameters) return shards_->attach(task.bucket);
  if (task.cargo == Cargo::gradients) buckets_->receive(task.bucket);
}

/// Memory of what was sent is wanted for what comes next.
void Executor::drop_sent(Step& step) {
  std::erase_if(step.sending, [&](int number) {
    if (!is_done(step, number)) return false;
    step.messages[static_cast<std::size_t>(number)].clear();
    return true;
  });
}

Span Executor::communication_span(const Step& step, int number) const {
  auto communication = span(step.number, number, Cause::communication);
  communication.stream = Stream::communication;
  communication.meeting = meeting_of(step.tasks[static_cast<std::size_t>(number)]);
  return communication;
}

/// A task's span is from when its first part was taken up until its last was over; without parts there was nothing to do.
void Executor::tell(Span span, const std::vector<Handle>& handles) {
  if (handles.empty()) return;
  span.begin = handles.front().began();
  span.end = handles.front().ended();
  for (const auto& handle : handles) {
    span.begin = std::min(span.begin, handle.began());
    span.end = std::max(span.end, handle.ended());
  }
  trace_.push_back(span);
}

}  // namespace ddl
