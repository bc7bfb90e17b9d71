#include <algorithm>

#include "ddl/core/error.h"
#include "ddl/train/executor_step.h"

// Rules that scale each parameter's step by norms of the whole parameter, where a worker has a piece or a part of it: an update in two halves, with sums over workers between them.
namespace ddl {

void Executor::adopt_norms() {
  const auto& tasks = role().tasks;
  part_norms_ = nullptr;
  if (std::none_of(tasks.begin(), tasks.end(), [](const Task& task) { return task.cargo == Cargo::norms; })) return;
  if (!device_.is_host())
    throw Error(Code::unsupported, fmt::format("[executor] unsupported: norms of parameters in pieces on a device with memory of its own are not in this version; got {}, expected cpu, "
                                               "optimizer sgd, adam or adamw, or strategy data or pipeline", device_.name()));
  part_norms_ = dynamic_cast<NormsOfParts*>(&optimizer_);
}

/// What the optimizer is to be given, once it is all there.
at::Tensor Executor::gradient_of(std::size_t parameter) {
  if (gradient_shards_) return gradient_shards_->gradient(parameter);
  if (const auto found = among_bucketed_.find(network_.parameter_numbers()[parameter]); found != among_bucketed_.end()) return buckets_->gradient(static_cast<int>(found->second));
  auto& gradient = network_.parameters()[parameter].mutable_grad();
  // Of one that nothing of this step depends on: what several workers would have in its bucket, so that all train alike.
  if (!gradient.defined()) gradient = at::zeros_like(network_.parameters()[parameter]);
  return gradient;
}

/// The first half of the update of all that this worker has.
void Executor::start_norms(Step& step, int number) {
  const auto& task = step.tasks[static_cast<std::size_t>(number)];
  for (const int other : task.after) complete(step, other);
  if (!step.judged) judge_gradient(step);
  auto& group = channels_->of_collective(task);
  const auto count = 2 * network_.parameters().size();
  const bool gathered = task.goal == Goal::all_gather;
  norms_.assign(gathered ? count * static_cast<std::size_t>(group.size()) : count, 0);
  auto* const own = norms_.data() + (gathered ? count * static_cast<std::size_t>(group.rank()) : 0);
  for (std::size_t i = 0; i < network_.parameters().size() && !step.skipped && part_norms_ != nullptr; ++i) {
    if (shards_ != nullptr && shards_->own()[i].numel() == 0) continue;
    const auto squares = part_norms_->measure(i, gradient_of(i), step.gradient_scale);
    // Of several that have the same piece one counts.
    if (!first_piece_[i]) continue;
    own[2 * i] = squares.parameter;
    own[2 * i + 1] = squares.step;
  }
  const Buffer buffer{reinterpret_cast<std::byte*>(norms_.data()), norms_.size(), ElementType::fp64};
  step.handles[static_cast<std::size_t>(number)].push_back(gathered ? group.start({Goal::all_gather}, buffer) : group.all_reduce(buffer, ReduceOp::sum));
}

/// What was gathered, in the order of those who have it.
void Executor::add_norms(const Task& task) {
  if (task.goal != Goal::all_gather) return;
  const auto count = 2 * network_.parameters().size();
  for (std::size_t i = count; i < norms_.size(); ++i) norms_[i % count] += norms_[i];
}

/// The update, or its second half.
void Executor::apply(const Step& step, const std::vector<std::size_t>& parameters, const std::vector<at::Tensor>& gradients) {
  if (part_norms_ == nullptr) return optimizer_.update(parameters, gradients, step.learning_rate, step.gradient_scale);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    part_norms_->apply_measured(parameters[i], gradients[i], step.learning_rate, step.gradient_scale, {norms_[2 * parameters[i]], norms_[2 * parameters[i] + 1]});
}

}  // namespace ddl
