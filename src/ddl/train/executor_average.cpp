#include <algorithm>
#include <cmath>
#include <limits>

#include <c10/core/GradMode.h>

#include "ddl/core/error.h"
#include "ddl/plan/meetings.h"
#include "ddl/plan/occasion.h"
#include "ddl/plan/peers.h"
#include "ddl/train/emulation/replay.h"
#include "ddl/train/executor_step.h"

// Replicas that train alone, and become one now and then: what is due in a step, and how parameters are averaged, over all workers or with neighbours.
// They travel in the memory of the gradients' buckets, laid out alike: gradients are dead once the optimizer has read them.
namespace ddl {

void Executor::find_due(Step& step) {
  step.local = is_local(plan_, step.number);
  const auto find = [&] {
    for (std::size_t i = 0; i < step.tasks.size(); ++i) {
      const auto& task = step.tasks[i];
      // What a server does it does as it comes.
      step.due[i] = task.stream != Stream::server && is_due(plan_, task, step.number, step.ends) && (!is_transfer(task) || peer_of(plan_, worker_, task) != kNone);
      if (gradient_shards_ || servers_ || task.cargo != Cargo::parameters || !communicates(task)) continue;
      // Who has no peer in an exchange takes part in it all the same: its number counts.
      if (is_transfer(task)) step.exchanges |= is_due(plan_, task, step.number, step.ends);
      else step.averages |= step.due[i];
    }
  };
  step.due.resize(step.tasks.size());
  step.gathered.assign(role().buckets.size(), nullptr);
  step.ends = step.number == last_step_;
  find();
  if (!step.exchanges) return;
  // A vote takes so many exchanges to reach all; then all stop after one and the same.
  failing_ |= failed_.has_value();
  if ((step.ask_to_stop || failing_) && stop_in_ == 0) stop_in_ = plan_.hops + 1;
  if (stop_in_ != 1 || step.ends) return;
  step.ends = true;
  find();
}

namespace {

/// Sum of squares of a vector, or of what it differs from another by: a piece at a time, since the difference, and its elements in fp64, take memory.
at::Tensor squares(const at::Tensor& dense, const at::Tensor& from = {}) {
  constexpr std::int64_t kPiece = std::int64_t{1} << 18;
  const auto all = dense.numel();
  const auto flat = [all](const at::Tensor& tensor) { return tensor.as_strided({all}, {1}); };
  auto sum = at::zeros({}, dense.options().dtype(at::kDouble));
  for (std::int64_t begin = 0; begin < all; begin += kPiece) {
    const auto size = std::min(kPiece, all - begin);
    auto piece = flat(dense).narrow(0, begin, size);
    if (from.defined()) piece = piece - flat(from).narrow(0, begin, size);
    sum += at::linalg_vector_norm(piece, 2, {}, false, at::kDouble).square();
  }
  return sum;
}

}  // namespace

at::Tensor Executor::held(const Task& task, int parameter) const {
  const auto i = bucketed_[among_bucketed_.at(parameter)];
  return task.cargo == Cargo::state ? optimizer_.kept(task.tensor, i) : network_.parameters()[i].detach();
}

/// Puts what the task sends into its bucket, where it is not there yet.
void Executor::gather(Step& step, const Task& task) {
  const auto bucket = static_cast<std::size_t>(task.bucket);
  auto& gathered = step.gathered[bucket];
  if (gathered != nullptr && gathered->cargo == task.cargo && gathered->tensor == task.tensor) return;
  gathered = &task;
  const c10::NoGradGuard guard;
  // What came back before is still on its way from the same memory to the device.
  step.there[bucket].wait();
  const auto begin = device_.mark();
  if (replay_ != nullptr) {
    replay_->waits().begin();
    replay_->copy(role().buckets[bucket].bytes);
    replay_->waits().end();
    record(step, begin, device_.mark(), span(step.number, kNone, Cause::copy));
    return;
  }
  const double weight = task.by_samples ? own_weight_ / global_weight_ : 1;
  for (const int parameter : role().buckets[bucket].parameters) {
    auto view = buckets_->gradient(static_cast<int>(among_bucketed_.at(parameter)));
    const auto own = held(task, parameter);
    weight == 1 ? view.copy_(own) : at::mul_out(view, own, at::scalar_tensor(weight, own.options().device(at::kCPU).dtype(at::kDouble)));
  }
  step.there[bucket] = buckets_->deliver(task.bucket);
  record(step, begin, device_.mark(), span(step.number, kNone, Cause::copy));
}

void Executor::start_mean(Step& step, int number) {
  const auto& task = step.tasks[static_cast<std::size_t>(number)];
  gather(step, task);
  std::function<void()> ready;
  if (const auto& there = step.there[static_cast<std::size_t>(task.bucket)]; !there.immediate()) ready = [there] { there.wait(); };
  Collective what{Goal::all_reduce, task.by_samples ? ReduceOp::sum : ReduceOp::average, exchange_.collective};
  step.handles[static_cast<std::size_t>(number)].push_back(
      channels_->of_collective(task).start(what, buckets_->buffer(task.bucket), Start::now, std::move(ready)));
}

void Executor::start_exchange(Step& step, int number) {
  const auto i = static_cast<std::size_t>(number);
  const auto& task = step.tasks[i];
  auto buffer = buckets_->buffer(task.bucket);
  std::function<void()> ready;
  if (task.kind == TaskKind::send) {
    gather(step, task);
    if (const auto& there = step.there[static_cast<std::size_t>(task.bucket)]; !there.immediate()) ready = [there] { there.wait(); };
  } else {
    auto& place = received_[number];
    if (!place.defined()) place = at::empty({static_cast<std::int64_t>(buffer.elements)}, network_.tensor_options().device(at::kCPU));
    buffer.data = static_cast<std::byte*>(place.data_ptr());
  }
  step.handles[i].push_back(channels_->of_transfer(task).start(Channels::transfer(), buffer, Start::now, std::move(ready)));
}

/// After a collective: what it made. After messages: the mean of one's own and those that came, each counting alike.
void Executor::average(Step& step, int number) {
  const c10::NoGradGuard guard;
  const auto& task = step.tasks[static_cast<std::size_t>(number)];
  if (servers_ || plan_.in_process) return take(task.bucket);
  const auto& parameters = role().buckets[static_cast<std::size_t>(task.bucket)].parameters;
  step.gathered[static_cast<std::size_t>(task.bucket)] = nullptr;
  std::vector<at::Tensor> came;
  bool of_all = false;
  for (const int other : task.after) {
    const auto& before = step.tasks[static_cast<std::size_t>(other)];
    if (!step.due[static_cast<std::size_t>(other)]) continue;
    of_all |= before.kind == TaskKind::collective;
    if (before.kind == TaskKind::receive) came.push_back(device_.upload(received_.at(other)));
  }
  if (replay_ != nullptr) {
    if (of_all) step.apart = step.size = at::zeros({}, at::kDouble);
    return replay_->copy(role().buckets[static_cast<std::size_t>(task.bucket)].bytes);
  }
  if (of_all) {
    buckets_->receive(task.bucket);
    step.there[static_cast<std::size_t>(task.bucket)] = device_.mark();
  }
  std::int64_t offset = 0;
  for (const int parameter : parameters) {
    auto own = held(task, parameter);
    if (of_all) {
      const auto& mean = buckets_->gradient(static_cast<int>(among_bucketed_.at(parameter)));
      if (task.cargo == Cargo::parameters) {
        const auto apart = squares(own, mean), size = squares(mean);
        step.apart = step.apart.defined() ? step.apart + apart : apart;
        step.size = step.size.defined() ? step.size + size : size;
      }
      own.copy_(mean);
    } else if (!came.empty()) {
      for (const auto& each : came) own.add_(each.as_strided(own.sizes(), own.strides(), offset));
      own.mul_(1.0 / static_cast<double>(came.size() + 1));
    }
    offset += own.numel();
  }
}

/// What goes with this worker's parameters. In a mean of all: its vote to stop, NaN to fail. To neighbours: after how many exchanges all
/// stop, so that all do after the same; less than 0 where they are then to fail.
double Executor::word_of_replicas(const Step& step) const {
  if (gossips_ && !step.ends) return failing_ ? -stop_in_ : stop_in_;
  if (failed_ || failing_) return std::numeric_limits<double>::quiet_NaN();
  return step.ask_to_stop ? 1 : 0;
}

/// What a step among replicas comes to: whether to stop after it, NaN where some worker's loss is not finite.
double Executor::votes_of_replicas(Step& step) {
  differs_ = true;
  double votes = 0;
  if (step.exchanges) {
    // In the last step the mean of all tells all.
    for (std::size_t i = 0; i < step.tasks.size() && !step.ends; ++i) {
      const auto& task = step.tasks[i];
      if (!step.due[i] || task.kind != TaskKind::receive || task.cargo != Cargo::parameters || !role().buckets[static_cast<std::size_t>(task.bucket)].control) continue;
      const auto& place = received_.at(static_cast<int>(i));
      const double heard = place[place.numel() - 1].item<double>();
      if (heard == 0) continue;
      failing_ |= heard < 0;
      const int left = static_cast<int>(std::abs(heard));
      stop_in_ = stop_in_ == 0 ? left : std::min(stop_in_, left);
    }
    if (stop_in_ > 0 && --stop_in_ == 0) votes = failing_ ? std::numeric_limits<double>::quiet_NaN() : 1;
  }
  if (!step.averages) return votes;
  differs_ = false;
  own_weight_ = global_weight_ = 0;
  ++averaging_.averagings;
  const double size = std::sqrt(fetch(device_, step.size).item<double>());
  averaging_.last_drift = size > 0 ? std::sqrt(fetch(device_, step.apart).item<double>()) / size : 0;
  averaging_.largest_drift = std::max(averaging_.largest_drift, averaging_.last_drift);
  const double told = buckets_->control();
  return std::isfinite(told) ? std::max(votes, told) : told;
}

}  // namespace ddl
