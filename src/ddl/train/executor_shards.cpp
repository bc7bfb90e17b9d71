#include <algorithm>

#include "ddl/core/error.h"
#include "ddl/train/executor_step.h"
#include "ddl/train/precision.h"
#include "ddl/train/tensor_buffer.h"

// What an executor does where workers keep parts of parameters and gradients.
namespace ddl {

void Executor::adopt_shards() {
  if (gradient_shards_) throw Error(Code::unsupported, "[executor] unsupported: parts are cut once; got a second plan");
  gradient_shards_ = std::make_unique<GradientShards>(network_.parameters(), shards_->layouts(), communicator_->transport(), replay_);
  part_norms_ = dynamic_cast<NormsOfParts*>(&optimizer_);
  norms_.assign(2 * network_.parameters().size(), 0);
}

/// Waits until the bucket's memory was reduced, if that has begun: the last of its reductions that were started.
bool Executor::make_room(Step& step, int bucket) {
  int found = kNone;
  for (const int number : communication_tasks_) {
    const auto& task = step.tasks[static_cast<std::size_t>(number)];
    if (task.goal == Goal::reduce_scatter && task.cargo == Cargo::gradients && task.bucket == bucket && step.started[static_cast<std::size_t>(number)] && !step.done[static_cast<std::size_t>(number)]) found = number;
  }
  if (found == kNone) return false;
  complete(step, found);
  return true;
}

void Executor::begin_shards(Step& step) {
  shards_->begin_step();
  gradient_shards_->begin_step({[&](int bucket) {
                                  ++step.raised[static_cast<std::size_t>(bucket)];
                                  start_ready(step);
                                },
                                [&](int bucket) { return make_room(step, bucket); },
                                [&](Nanoseconds begin, Nanoseconds end) { trace_.push_back(span(step.number, kNone, Cause::copy, begin, end)); }});
}

void Executor::start_sharded(Step& step, int number) {
  const auto& task = step.tasks[static_cast<std::size_t>(number)];
  auto& group = channels_->of_collective(task);
  // An algorithm may be one of all-reduce alone.
  const std::string_view algorithm = exchange_.collective == "ring" || exchange_.collective == "direct" ? std::string_view(exchange_.collective) : "auto";
  const Collective what{task.goal, ReduceOp::sum, algorithm};
  auto& handles = step.handles[static_cast<std::size_t>(number)];
  if (task.cargo == Cargo::parameters) {
    const auto buffer = shards_->gather(task.bucket);
    // Beside what computes.
    handles.push_back(group.start(what, buffer, Start::now, [this, bucket = task.bucket] { shards_->fill(bucket); }));
    return;
  }
  if (task.cargo == Cargo::gradients && task.goal == Goal::all_reduce) {
    // The same part of other replicas, once all of it is here.
    for (const int other : task.after) complete(step, other);
    const auto& own = gradient_shards_->own()[static_cast<std::size_t>(task.bucket)];
    handles.push_back(group.all_reduce(buffer_of(own), ReduceOp::sum, exchange_.collective));
    return;
  }
  if (task.cargo == Cargo::gradients) {
    handles.push_back(group.start(what, gradient_shards_->buffer(task.bucket)));
    return;
  }
  start_norms(step, number);
}

/// The first half of the update of all parts.
void Executor::start_norms(Step& step, int number) {
  const auto& task = step.tasks[static_cast<std::size_t>(number)];
  for (const int other : task.after) complete(step, other);
  if (!step.judged) judge_gradient(step);
  std::fill(norms_.begin(), norms_.end(), 0);
  if (!step.skipped && replay_ == nullptr)
    for (const auto& layout : shards_->layouts())
      for (const auto& each : layout.parameters)
        if (each.own.size() > 0) {
          const auto squares = part_norms_->measure(each.number, gradient_shards_->gradient(each.number), step.gradient_scale);
          norms_[2 * each.number] = squares.parameter;
          norms_[2 * each.number + 1] = squares.step;
        }
  step.handles[static_cast<std::size_t>(number)].push_back(
      channels_->of_collective(task).all_reduce({reinterpret_cast<std::byte*>(norms_.data()), norms_.size(), ElementType::fp64}, ReduceOp::sum));
}

void Executor::update_shard(Step& step, const Task& task) {
  if (step.skipped) return;
  std::vector<std::size_t> numbers;
  std::vector<at::Tensor> gradients;
  for (const auto& each : shards_->layouts()[static_cast<std::size_t>(task.bucket)].parameters) {
    if (each.own.size() == 0) continue;
    numbers.push_back(each.number);
    gradients.push_back(gradient_shards_->gradient(each.number));
  }
  if (part_norms_ == nullptr) return optimizer_.update(numbers, gradients, step.learning_rate, step.gradient_scale);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    part_norms_->apply_measured(numbers[i], gradients[i], step.learning_rate, step.gradient_scale, {norms_[2 * numbers[i]], norms_[2 * numbers[i] + 1]});
}

}  // namespace ddl
