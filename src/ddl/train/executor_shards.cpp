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
  handles.push_back(group.start(what, gradient_shards_->buffer(task.bucket), how_to_start(step)));
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
  apply(step, numbers, gradients);
}

}  // namespace ddl
