#include <algorithm>
#include <utility>

#include <c10/core/GradMode.h>

#include "ddl/core/error.h"
#include "ddl/plan/meetings.h"
#include "ddl/train/executor_serving.h"
#include "ddl/train/executor_step.h"
#include "ddl/train/in_process.h"

// Replicas of which one has the batch and updates the parameters (strategy/in_process.h): inputs are scattered, parameters given to all, gradients added up at the first of a group.
namespace ddl {
namespace {

bool brings_inputs(const Task& task) { return task.kind == TaskKind::receive && task.cargo == Cargo::inputs; }
bool replicates(const Task& task) { return task.kind == TaskKind::collective && task.goal == Goal::broadcast && task.cargo == Cargo::parameters; }

/// Rows [first, first + count) of what a batch has, one after the other; answers stay with whoever read them, but for words, which are inputs, too.
std::vector<Buffer> rows(Batch& batch, const SampleShape& shape, std::size_t first, std::size_t count) {
  std::vector<Buffer> all;
  const auto add = [&](auto& values, std::int64_t each, ElementType type) {
    if (each <= 0) return;
    const auto elements = static_cast<std::size_t>(each);
    invariant(values.size() >= (first + count) * elements, "a batch has all its rows");
    all.push_back({reinterpret_cast<std::byte*>(values.data() + first * elements), count * elements, type});
  };
  if (shape.channels > 0) add(batch.images, shape.pixels(), ElementType::fp32);
  add(batch.source, shape.source_length, ElementType::int64);
  if (shape.objective != Objective::classification) add(batch.target, shape.target_length, ElementType::int64);
  return all;
}

}  // namespace

bool is_given_inputs(const Plan& plan, int worker) {
  const auto& tasks = plan.role_of(worker).tasks;
  return std::any_of(tasks.begin(), tasks.end(), brings_inputs);
}

/// Room for what comes: the loader said which samples they are, and read nothing.
void Executor::take_batch(Step& step) {
  if (!is_given_inputs(plan_, worker_)) return;
  if (!shared_out_) shared_out_ = std::make_shared<Batch>();
  auto& own = *shared_out_;
  const auto samples = static_cast<std::size_t>(step.batch->samples);
  const auto grow = [&](auto& values, std::int64_t each) {
    // What is there is written over, or, of other workers' rows, never read.
    if (const auto wanted = samples * static_cast<std::size_t>(std::max<std::int64_t>(0, each)); values.size() < wanted) values.resize(wanted);
  };
  grow(own.images, recipe_.shape.channels > 0 ? recipe_.shape.pixels() : 0);
  grow(own.labels, 1);
  grow(own.source, recipe_.shape.source_length);
  grow(own.target, recipe_.shape.target_length);
  own.step = step.batch->step;
  own.samples = step.batch->samples;
  own.global_samples = step.batch->global_samples;
  own.global_weight = step.batch->global_weight;
  own.weight = step.batch->weight;
  own.indices = step.batch->indices;
  step.batch = shared_out_;
}

void Executor::start_inputs(Step& step, int number) {
  const auto i = static_cast<std::size_t>(number);
  const auto& task = step.tasks[i];
  const auto mine = samples_of(step, task);
  // A sender's batch is read alone.
  auto& batch = const_cast<Batch&>(*step.batch);
  if (mine.begin == mine.end) return;
  for (const auto& buffer : rows(batch, recipe_.shape, mine.begin, mine.size()))
    step.handles[i].push_back(channels_->of_transfer(task).start(Channels::transfer(), buffer));
}

/// A collective with a root, the first of its group.
void Executor::start_at_root(Step& step, int number) {
  const auto& task = step.tasks[static_cast<std::size_t>(number)];
  auto& communicator = channels_->of_collective(task);
  if (replicates(task) && communicator.rank() == 0) gather(step, task);
  std::function<void()> ready;
  if (const auto& there = step.there[static_cast<std::size_t>(task.bucket)]; !there.immediate()) ready = [there] { there.wait(); };
  step.handles[static_cast<std::size_t>(number)].push_back(communicator.start({task.goal, ReduceOp::sum}, buckets_->buffer(task.bucket), Start::now, std::move(ready)));
}

/// After the last update the others' parameters are one step behind.
void Executor::replicate() {
  const auto& tasks = role().tasks;
  if (replay_ != nullptr) return;  // nor do the first one's change
  if (servers_ || std::none_of(tasks.begin(), tasks.end(), replicates)) return;
  const c10::NoGradGuard guard;
  for (const auto& task : tasks) {
    if (!replicates(task)) continue;
    auto& communicator = channels_->of_collective(task);
    if (communicator.rank() == 0) {
      for (const int parameter : role().buckets[static_cast<std::size_t>(task.bucket)].parameters)
        buckets_->gradient(static_cast<int>(among_bucketed_.at(parameter))).copy_(held(task, parameter));
      buckets_->deliver(task.bucket).wait();
    }
    communicator.broadcast(buckets_->buffer(task.bucket), 0).wait();
    if (communicator.rank() != 0) take(task.bucket);
  }
  if (!device_.is_host()) device_.synchronize();
  // Nobody's backward fills the memory that another still reads.
  communicator_->barrier().wait();
}

}  // namespace ddl
