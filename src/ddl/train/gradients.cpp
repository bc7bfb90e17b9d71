#include "ddl/train/gradients.h"

#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "ddl/core/error.h"
#include "ddl/train/emulation/replay.h"
#include "ddl/train/gathering.h"
#include "ddl/train/tensor_buffer.h"

namespace ddl {

GradientBuckets::GradientBuckets(std::vector<at::Tensor> parameters, Transport& transport, Device& device, Replay* replay)
    : device_(device), replay_(replay), parameters_(std::move(parameters)), views_(parameters_.size()), bucket_of_(parameters_.size()), filled_(parameters_.size()), came_(parameters_.size()) {
  invariant(!parameters_.empty(), "buckets hold at least one parameter");
  type_ = parameter_type(parameters_[0]);
  element_bytes_ = size_of(type_);
  std::size_t bytes = aligned(1);
  for (const auto& parameter : parameters_) bytes += aligned(parameter.nbytes());
  memory_ = transport.allocate(bytes);
  if (replay_ != nullptr) std::memset(memory_.data(), 0, memory_.size());
  if (!device_.is_host()) {
    device_.pin(memory_);
    block_ = at::empty({static_cast<std::int64_t>(memory_.size() / element_bytes_)}, parameters_[0].options().requires_grad(false));
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    torch::autograd::impl::set_post_acc_grad_hooks(parameters_[i], std::make_unique<GradientHook<GradientBuckets>>(*this, static_cast<int>(i)));
}

GradientBuckets::~GradientBuckets() {
  for (const auto& parameter : parameters_) torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
  if (!device_.is_host()) device_.unpin(memory_);
}

void GradientBuckets::arrange(const std::vector<Bucket>& buckets) {
  buffers_.clear();
  late_.clear();
  places_.clear();
  observed_.clear();
  const auto options = parameters_[0].options().requires_grad(false);
  const auto element = [&](std::size_t byte) { return static_cast<std::int64_t>(byte / element_bytes_); };
  std::size_t offset = 0;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    offset = aligned(offset);
    const std::size_t begin = offset;
    late_.push_back(buckets[b].stage == kNone);
    Buffer buffer{memory_.data() + begin, 0, type_};
    for (const int number : buckets[b].parameters) {
      const auto& parameter = parameters_[static_cast<std::size_t>(number)];
      views_[static_cast<std::size_t>(number)] = block_.defined()
                                                     ? block_.as_strided(parameter.sizes(), parameter.strides(), element(offset))
                                                     : at::from_blob(memory_.data() + offset, parameter.sizes(), parameter.strides(), options);
      bucket_of_[static_cast<std::size_t>(number)] = static_cast<int>(b);
      buffer.elements += static_cast<std::size_t>(parameter.numel());
      offset += parameter.nbytes();
    }
    if (buckets[b].control) {
      control_ = at::from_blob(memory_.data() + offset, {1}, options.device(at::kCPU));
      own_control_ = block_.defined() ? block_.narrow(0, element(offset), 1) : control_;
      offset += element_bytes_;
      ++buffer.elements;
    }
    if (block_.defined()) {
      const auto elements = static_cast<std::int64_t>(buffer.elements);
      places_.push_back({at::from_blob(memory_.data() + begin, {elements}, options.device(at::kCPU)), block_.narrow(0, element(begin), elements)});
    }
    buffers_.push_back(buffer);
  }
  invariant(offset <= memory_.size(), "buckets fit their memory");
}

void GradientBuckets::begin_step(Ready ready, std::function<void(Nanoseconds, Nanoseconds)> copied, bool travels) {
  travels_ = travels;
  ready_ = std::move(ready);
  copied_ = std::move(copied);
  last_pass_ = false;
  copied_bytes_ = widened_bytes_ = 0;
  filled_.assign(parameters_.size(), false);
  came_.assign(parameters_.size(), false);
  observed_.clear();
  missing_ = expected();
}

std::vector<int> GradientBuckets::expected() const {
  std::vector<int> all(buffers_.size());
  for (const int bucket : bucket_of_) ++all[static_cast<std::size_t>(bucket)];
  return all;
}

void GradientBuckets::begin_pass(bool last) { last_pass_ = last; }

std::optional<GradientPlace::Place> GradientBuckets::place(int parameter) const {
  const auto i = static_cast<std::size_t>(parameter);
  if (!waits_for(i) || replay_ != nullptr || !device_.is_host()) return {};
  return GradientPlace::Place{views_[i], filled_[i]};
}

void GradientBuckets::take(int number, at::Tensor& gradient) {
  const auto i = static_cast<std::size_t>(number);
  // A hook that fires outside of a step (somebody else's backward) leaves the gradient where it is.
  if (!waits_for(i)) return;
  const auto begin = now();
  const c10::NoGradGuard guard;
  auto& view = views_[i];
  const bool adds = recorded_ ? recorded_->filled[i] : filled_[i];
  if (replay_ != nullptr) {
    replay_->copy(static_cast<std::int64_t>(view.nbytes()));
  } else if (const auto bytes = gather_gradient(gradient, view, adds); !recorded_) {
    copied_bytes_ += bytes;
  }
  gradient.reset();
  // Replayed, it is part of the backward, which waits for it.
  if (copied_ && device_.is_host() && replay_ == nullptr) copied_(begin, now());
  arrived(number, true);
}

void GradientBuckets::arrived(int number, bool whole, std::int64_t widened) {
  widened_bytes_ += widened;
  const auto i = static_cast<std::size_t>(number);
  if (!whole) {
    filled_[i] = true;  // never while a pass is recorded: place() is the host's alone
    return;
  }
  if (recorded_) {
    recorded_->filled[i] = true;
    recorded_->gradients.push_back(number);
    const auto bucket = static_cast<std::size_t>(bucket_of_[i]);
    if (recorded_->last && !late_[bucket] && --recorded_->missing[bucket] == 0) recorded_->complete.emplace_back(bucket_of_[i], device_.milestone());
    return;
  }
  filled_[i] = true;
  if (!last_pass_ || late_[static_cast<std::size_t>(bucket_of_[i])]) return;
  observed_.push_back(number);
  settle(number);
}

void GradientBuckets::begin_recorded_pass(bool last, const Arrivals* before) {
  recorded_.emplace();
  recorded_->last = last;
  recorded_->filled = before != nullptr ? before->filled : std::vector<bool>(parameters_.size());
  recorded_->missing = expected();
}

GradientBuckets::Arrivals GradientBuckets::end_recorded_pass() {
  auto arrivals = std::exchange(recorded_, std::nullopt);
  return arrivals ? std::move(*arrivals) : Arrivals{};
}

void GradientBuckets::arrive_again(const Arrivals& arrivals) {
  std::size_t next = 0;
  for (const int number : arrivals.gradients) {
    const auto i = static_cast<std::size_t>(number);
    filled_[i] = true;
    copied_bytes_ += static_cast<std::int64_t>(views_[i].nbytes());
    if (!arrivals.last || late_[static_cast<std::size_t>(bucket_of_[i])]) continue;
    observed_.push_back(number);
    const bool completes = missing_[static_cast<std::size_t>(bucket_of_[i])] == 1;
    invariant(!completes || (next < arrivals.complete.size() && arrivals.complete[next].first == bucket_of_[i]), "buckets are complete where they were when their graph was recorded");
    settle(number, completes ? &arrivals.complete[next++].second : nullptr);
  }
}

void GradientBuckets::settle(int number, const Milestone* complete) {
  came_[static_cast<std::size_t>(number)] = true;
  const int bucket = bucket_of_[static_cast<std::size_t>(number)];
  if (--missing_[static_cast<std::size_t>(bucket)] > 0) return;
  if (replay_ != nullptr) replay_->waits().settle();
  ready_(bucket, travels_ ? deliver(bucket, complete) : Moment());
}

Moment GradientBuckets::deliver(int bucket, const Milestone* complete) {
  if (device_.is_host()) return Moment();
  auto& place = places_[static_cast<std::size_t>(bucket)];
  if (complete != nullptr) return device_.download_after(place.host, place.device, *complete);
  return device_.download(place.host, place.device);
}

void GradientBuckets::receive(int bucket) {
  if (device_.is_host()) return;
  auto& place = places_[static_cast<std::size_t>(bucket)];
  device_.upload_into(place.device, place.host);
}

void GradientBuckets::complete_step() {
  const c10::NoGradGuard guard;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (!came_[i]) {
      if (!filled_[i]) views_[i].zero_();
      observed_.push_back(static_cast<int>(i));
      settle(static_cast<int>(i));
    }
  ready_ = nullptr;
}

std::int64_t GradientBuckets::gradient_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& view : views_) bytes += static_cast<std::int64_t>(view.nbytes());
  return bytes;
}

Buffer GradientBuckets::buffer(int bucket) const { return buffers_.at(static_cast<std::size_t>(bucket)); }

void GradientBuckets::set_control(double value) { own_control_.fill_(value); }
void GradientBuckets::add_to_control(const at::Tensor& value) { own_control_.add_(value); }
double GradientBuckets::control() const { return control_.item<double>(); }

}  // namespace ddl
