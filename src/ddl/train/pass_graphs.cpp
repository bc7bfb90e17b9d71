#include "ddl/train/pass_graphs.h"

#include <algorithm>
#include <utility>

#include "ddl/core/error.h"

namespace ddl {
namespace {

at::Tensor scalar(double value) { return at::scalar_tensor(value, at::kDouble); }

}  // namespace

PassGraphs::PassGraphs(const std::vector<Pass>& passes, const Batch& batch, StageRunner& runner, Network& network, Device& device, const SampleShape& shape, GradientBuckets* buckets)
    : runner_(runner), network_(network), device_(device), shape_(shape), buckets_(buckets), batch_samples_(batch.samples), scale_(device.upload(scalar(1))),
      gradients_(network.parameters().size()) {
  // What the passes are given lies outside of the graphs' memory.
  for (const auto& pass : passes)
    if (pass.task->kind == TaskKind::forward) {
      auto& own = micro_batches_[pass.task->micro_batch];
      own.samples = pass.samples;
      own.given = upload(part_of(batch, shape_, static_cast<std::int64_t>(pass.samples.begin), static_cast<std::int64_t>(pass.samples.end), network_, device_), device_);
    }
  device_.synchronize();
  try {
    bool first = true;
    for (const auto& pass : passes) {
      if (pass.task->kind == TaskKind::forward)
        record_forward(pass);
      else
        record_backward(pass, std::exchange(first, false));
    }
  } catch (...) {
    if (buckets_ != nullptr) buckets_->end_recorded_pass();
    take_gradients();
    runner_.begin_step();
    throw;
  }
  runner_.begin_step();
}

PassGraphs::~PassGraphs() {
  try {
    let_ahead_go();
  } catch (const std::exception&) {
    // The device is broken, and whoever used it has been told.
  }
}

/// Of a batch that no step has been of: nobody else waits for the device to have read it.
void PassGraphs::let_ahead_go() {
  if (!ahead_) return;
  for (const auto& [number, own] : micro_batches_) own.uploaded.second.wait();
  ahead_.reset();
}

void PassGraphs::record_forward(const Pass& pass) {
  auto& own = micro_batches_.at(pass.task->micro_batch);
  own.forward = device_.record(
      [&runner = runner_, &network = network_, &shape = shape_, &given = own.given, task = pass.task]() -> std::vector<at::Tensor> {
        runner.forward(*task, example(given, shape, network));
        return {runner.loss(*task)};
      },
      first_);
  if (first_ == nullptr) first_ = own.forward.get();
}

void PassGraphs::record_backward(const Pass& pass, bool first) {
  auto& own = micro_batches_.at(pass.task->micro_batch);
  own.last = pass.last;
  const auto* const before = std::exchange(before_, &own.arrivals);
  own.backward = device_.record(
      [this, first, before, &own, task = pass.task]() -> std::vector<at::Tensor> {
        if (!first) give_gradients();
        if (buckets_ != nullptr) buckets_->begin_recorded_pass(own.last, before);
        runner_.backward(*task, scale_);
        if (buckets_ != nullptr) {
          auto arrivals = buckets_->end_recorded_pass();
          if (own.backward == nullptr) own.arrivals = std::move(arrivals);
        }
        return take_gradients();
      },
      first_);
  // Where the passes after this one add to them, and steps find them.
  std::size_t next = 0;
  for (const auto i : with_gradients_) gradients_[i] = own.backward->made().at(next++);
}

/// Out of the parameters: a launch leaves nothing there.
std::vector<at::Tensor> PassGraphs::take_gradients() {
  std::vector<at::Tensor> taken;
  with_gradients_.clear();
  for (std::size_t i = 0; i < network_.parameters().size(); ++i) {
    auto& gradient = network_.parameters()[i].mutable_grad();
    if (!gradient.defined()) continue;
    with_gradients_.push_back(i);
    taken.push_back(std::move(gradient));
    gradient.reset();
  }
  return taken;
}

void PassGraphs::give_gradients() {
  for (std::size_t i = 0; i < gradients_.size(); ++i)
    if (gradients_[i].defined()) network_.parameters()[i].mutable_grad() = gradients_[i];
}

void PassGraphs::forward(const Task& task, const Batch& batch, Range samples) {
  auto& own = micro_batches_.at(task.micro_batch);
  const auto before = device_.mark();
  uploaded_ = nullptr;
  if (ahead_.get() == &batch) {
    device_.follow(own.uploaded.second);
    copy(own.given, own.ahead);
    own.free = device_.mark();
    uploaded_ = &own.uploaded;
    // From here on it is the step's to hold, whose work comes after the upload.
    if (--left_ == 0) ahead_.reset();
  } else {
    refill(own.given, part_of(batch, shape_, static_cast<std::int64_t>(samples.begin), static_cast<std::int64_t>(samples.end), network_, device_), device_);
  }
  copied_ = {before, device_.mark()};
  own.forward->launch();
}

void PassGraphs::upload_ahead(std::shared_ptr<const Batch> next) {
  if (!uploads_ahead_ || next == ahead_ || !fits(*next)) return;
  let_ahead_go();
  if (!has_ahead_) {
    try {
      for (auto& [number, own] : micro_batches_) {
        own.ahead = as_large_as(own.given);
        own.free = device_.mark();
      }
      has_ahead_ = true;
    } catch (const std::exception&) {
      uploads_ahead_ = false;
      for (auto& [number, own] : micro_batches_) own.ahead = {};
      return;
    }
  }
  for (auto& [number, own] : micro_batches_)
    own.uploaded = upload_beside(own.ahead, part_of(*next, shape_, static_cast<std::int64_t>(own.samples.begin), static_cast<std::int64_t>(own.samples.end), network_, device_), device_, own.free);
  ahead_ = std::move(next);
  left_ = micro_batches_.size();
}

void PassGraphs::backward(const Task& task, double scale) {
  auto& own = micro_batches_.at(task.micro_batch);
  device_.refill(scale_, scalar(scale));
  own.backward->launch();
  if (buckets_ != nullptr) buckets_->arrive_again(own.arrivals);
  if (own.last) give_gradients();
}

}  // namespace ddl
