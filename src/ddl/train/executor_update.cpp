#include <algorithm>
#include <cmath>
#include <utility>

#include "ddl/core/error.h"
#include "ddl/train/emulation/replay.h"
#include "ddl/train/executor_step.h"
#include "ddl/train/precision.h"

namespace ddl {
namespace {

/// Halved so often, the loss itself no longer counts in fp16: something else is wrong.
constexpr double kLeastLossScale = 1e-6;

}  // namespace

/// `own_alone`: of parameters that no worker before this one has, so that the sum over workers counts each once.
double Executor::squares_of_gradient(bool own_alone) {
  if (replay_ != nullptr) return 0;
  std::vector<at::Tensor> gradients;
  const auto counts = [&](std::size_t i) { return !own_alone || std::binary_search(owned_.begin(), owned_.end(), i); };
  if (gradient_shards_ && plan_.mesh.find("sharded") < 0) return sum_of_squares(gradient_shards_->own(), device_);
  if (gradient_shards_) {
    for (std::size_t i = 0; i < network_.parameters().size(); ++i)
      if (counts(i)) gradients.push_back(gradient_shards_->gradient(i));
    return sum_of_squares(gradients, device_);
  }
  for (std::size_t b = 0; b < bucketed_.size(); ++b)
    if (counts(bucketed_[b])) gradients.push_back(buckets_->gradient(static_cast<int>(b)));
  for (const auto i : unbucketed_)
    if (const auto& gradient = network_.parameters()[i].grad(); counts(i) && gradient.defined()) gradients.push_back(gradient);
  return sum_of_squares(gradients, device_);
}

/// Once a step, where an update depends on more than its own gradient: one pass over all of them gives their norm, which
/// is finite exactly where they all are. Every worker reads the same reduced bits, hence all agree.
/// Clipping: Pascanu, Mikolov & Bengio, On the difficulty of training recurrent neural networks, ICML 2013, algorithm 1;
/// the small number under the norm is torch.nn.utils.clip_grad_norm_'s.
void Executor::judge_gradient(Step& step) {
  constexpr double kTiny = 1e-6;
  step.judged = true;
  if (!needs_whole_gradient(recipe_)) return;
  const double squares = control_task_ == kNone ? squares_of_gradient(false) : control_[2];
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
  // No samples of its own, no step: neither momentum nor decay moves a worker that saw nothing.
  if (step.local && step.batch->samples == 0) return;
  if (!step.judged) judge_gradient(step);
  if (replay_ != nullptr) return replay_update(task);
  if (gradient_shards_) return update_shard(step, task);
  std::vector<std::size_t> numbers;
  std::vector<at::Tensor> gradients;
  if (task.bucket != kNone) {
    if (step.skipped) return;
    const auto& wanted = role().buckets[static_cast<std::size_t>(task.bucket)].parameters;
    for (const int parameter : wanted) {
      const auto b = among_bucketed_.at(parameter);
      numbers.push_back(bucketed_[b]);
      gradients.push_back(buckets_->gradient(static_cast<int>(b)));
    }
    return apply(step, numbers, gradients);
  }
  for (const auto i : unbucketed_) {
    numbers.push_back(i);
    gradients.push_back(gradient_of(i));
    network_.parameters()[i].mutable_grad().reset();
  }
  if (!step.skipped) apply(step, numbers, gradients);
}

/// For as long as an optimizer's pass over what the task updates takes; parameters stay as they are.
void Executor::replay_update(const Task& task) {
  std::int64_t bytes = 0;
  if (gradient_shards_) {
    const auto element = static_cast<std::int64_t>(network_.tensor_options().dtype().itemsize());
    for (const auto& each : shards_->layouts()[static_cast<std::size_t>(task.bucket)].parameters) bytes += static_cast<std::int64_t>(each.own.size()) * element;
  } else if (task.bucket != kNone) {
    bytes = role().buckets[static_cast<std::size_t>(task.bucket)].bytes;
  } else {
    for (const auto i : unbucketed_) {
      bytes += static_cast<std::int64_t>(network_.parameters()[i].nbytes());
      network_.parameters()[i].mutable_grad().reset();
    }
  }
  replay_->update(bytes);
}

}  // namespace ddl
