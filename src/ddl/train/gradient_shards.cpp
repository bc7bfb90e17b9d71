#include "ddl/train/gradient_shards.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "ddl/core/at.h"
#include "ddl/core/error.h"
#include "ddl/measure/clock.h"
#include "ddl/train/emulation/replay.h"
#include "ddl/train/gathering.h"
#include "ddl/train/tensor_buffer.h"

namespace ddl {
namespace {

constexpr int kSlots = 2;

}  // namespace

GradientShards::GradientShards(std::vector<at::Tensor> parameters, const std::vector<ShardLayout>& layouts, Transport& transport, Replay* replay)
    : parameters_(std::move(parameters)), layouts_(layouts), replay_(replay), type_(parameter_type(parameters_.at(0))), element_bytes_(ddl::size_of(type_)) {
  const auto count = parameters_.size();
  bucket_of_.resize(count);
  offset_of_.resize(count);
  gradients_.resize(count);
  filled_.resize(count);
  came_.resize(count);
  places_.resize(layouts_.size());
  const auto options = parameters_[0].options().requires_grad(false);
  const auto allocate = [&](std::size_t bytes) {
    slot_bytes_ += static_cast<std::int64_t>(bytes);
    auto* const data = transport.allocate(aligned(bytes)).data();
    if (replay_ != nullptr) std::memset(data, 0, bytes);
    return data;
  };
  std::vector<std::size_t> sizes;
  int turn = 0;
  for (std::size_t b = 0; b < layouts_.size(); ++b) {
    const auto& layout = layouts_[b];
    auto& place = places_[b];
    const auto own = static_cast<std::int64_t>(layout.own.size());
    if (layout.bucket.every_pass) {
      place.slot = turn++ % kSlots;
      sizes.resize(std::max(sizes.size(), at(place.slot) + 1));
      sizes[at(place.slot)] = std::max(sizes[at(place.slot)], layout.elements * element_bytes_);
      own_.push_back(at::zeros({own}, options));
      own_bytes_ += static_cast<std::int64_t>(own_.back().nbytes());
    } else {
      place.data = allocate(layout.elements * element_bytes_);
      own_.push_back(at::from_blob(place.data + layout.own.begin * element_bytes_, {own}, options));
    }
    for (const auto& each : layout.parameters) {
      bucket_of_[each.number] = static_cast<int>(b);
      offset_of_[each.number] = each.offset;
      gradients_[each.number] = own_part(own_.back(), layout, each, parameters_[each.number]);
      torch::autograd::impl::set_post_acc_grad_hooks(parameters_[each.number], std::make_unique<GradientHook<GradientShards>>(*this, static_cast<int>(each.number)));
    }
  }
  for (const auto size : sizes) slots_.push_back(allocate(size));
  holder_.assign(slots_.size(), kNone);
}

GradientShards::~GradientShards() {
  for (const auto& parameter : parameters_) torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
}

void GradientShards::begin_step(Callbacks callbacks) {
  call_ = std::move(callbacks);
  last_pass_ = false;
  copied_bytes_ = widened_bytes_ = 0;
  filled_.assign(parameters_.size(), false);
  came_.assign(parameters_.size(), false);
  holder_.assign(slots_.size(), kNone);
  for (std::size_t b = 0; b < places_.size(); ++b) {
    auto& place = places_[b];
    if (place.slot != kNone) place.data = nullptr;
    place.state = State::empty;
    place.counts = false;
    place.missing = static_cast<int>(layouts_[b].parameters.size());
  }
}

/// The bucket may be written to on return.
void GradientShards::make_room(int bucket) {
  auto& place = places_[at(bucket)];
  if (place.state == State::filling) return;
  if (place.state == State::complete) {
    // Of the micro-batch before.
    const bool reduced = call_.room(bucket);
    invariant(reduced && place.state == State::empty, "a bucket is reduced before it is filled anew");
  }
  place.state = State::filling;
  if (place.slot == kNone) return;
  if (const int other = holder_[at(place.slot)]; other != kNone && (places_[at(other)].state != State::complete || !call_.room(other))) {
    auto memory = at::empty({static_cast<std::int64_t>(layouts_[at(bucket)].elements)}, parameters_[0].options().requires_grad(false));
    if (replay_ != nullptr) memory.zero_();
    slot_bytes_ += static_cast<std::int64_t>(memory.nbytes());
    place.data = static_cast<std::byte*>(memory.data_ptr());
    place.slot = kNone;
    beside_.push_back(std::move(memory));
    return;
  }
  holder_[at(place.slot)] = bucket;
  place.data = slots_[at(place.slot)];
}

at::Tensor GradientShards::view(std::size_t parameter) const {
  const auto& like = parameters_[parameter];
  return at::from_blob(places_[at(bucket_of_[parameter])].data + offset_of_[parameter] * element_bytes_, like.sizes(), like.strides(), like.options().requires_grad(false));
}

std::optional<GradientPlace::Place> GradientShards::place(int number) {
  const auto i = at(number);
  if (!waits_for(i) || replay_ != nullptr) return {};
  make_room(bucket_of_[i]);
  return GradientPlace::Place{view(i), filled_[i]};
}

void GradientShards::take(int number, at::Tensor& gradient) {
  const auto i = at(number);
  // A hook that fires outside of a step (somebody else's backward) leaves the gradient where it is.
  if (!waits_for(i)) return;
  make_room(bucket_of_[i]);
  const auto begin = now();
  const c10::NoGradGuard guard;
  auto into = view(i);
  if (replay_ != nullptr)
    replay_->copy(static_cast<std::int64_t>(into.nbytes()));
  else
    copied_bytes_ += gather_gradient(gradient, into, filled_[i]);
  gradient.reset();
  if (call_.copied && replay_ == nullptr) call_.copied(begin, now());
  arrived(number, true);
}

void GradientShards::arrived(int number, bool whole, std::int64_t widened) {
  widened_bytes_ += widened;
  filled_[at(number)] = true;
  const auto& plan = layouts_[at(bucket_of_[at(number)])].bucket;
  if (whole && plan.stage != kNone && (plan.every_pass || last_pass_)) came(at(number));
}

void GradientShards::came(std::size_t number) {
  came_[number] = true;
  const int bucket = bucket_of_[number];
  auto& place = places_[at(bucket)];
  if (--place.missing > 0) return;
  place.state = State::complete;
  if (replay_ != nullptr) replay_->waits().settle();
  call_.ready(bucket);
}

void GradientShards::finish(int bucket) {
  if (places_[at(bucket)].missing == 0) return;
  make_room(bucket);
  for (const auto& each : layouts_[at(bucket)].parameters) {
    if (came_[each.number]) continue;
    if (!filled_[each.number]) std::memset(places_[at(bucket)].data + each.offset * element_bytes_, 0, each.elements * element_bytes_);
    filled_[each.number] = true;
    came(each.number);
  }
}

void GradientShards::complete_pass(int stage) {
  for (int bucket = 0; bucket < static_cast<int>(places_.size()); ++bucket) {
    const auto& plan = layouts_[at(bucket)].bucket;
    if (!plan.every_pass || plan.stage != stage) continue;
    finish(bucket);
    for (const auto& each : layouts_[at(bucket)].parameters) filled_[each.number] = came_[each.number] = false;
    places_[at(bucket)].missing = static_cast<int>(layouts_[at(bucket)].parameters.size());
  }
}

void GradientShards::complete_step() {
  for (int bucket = 0; bucket < static_cast<int>(places_.size()); ++bucket)
    if (!layouts_[at(bucket)].bucket.every_pass) finish(bucket);
  call_ = {};
}

std::int64_t GradientShards::gradient_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& layout : layouts_)
    for (const auto& each : layout.parameters) bytes += static_cast<std::int64_t>(each.elements * element_bytes_);
  return bytes;
}

Buffer GradientShards::buffer(int bucket) const { return {places_[at(bucket)].data, layouts_[at(bucket)].elements, type_}; }

void GradientShards::take_reduced(int bucket) {
  const auto& layout = layouts_[at(bucket)];
  if (!layout.bucket.every_pass) return;
  auto& place = places_[at(bucket)];
  const c10::NoGradGuard guard;
  auto& own = own_[at(bucket)];
  const auto reduced = at::from_blob(place.data + layout.own.begin * element_bytes_, own.sizes(), own.options());
  if (replay_ == nullptr) place.counts ? own.add_(reduced) : own.copy_(reduced);
  place.counts = true;
  place.state = State::empty;
  if (place.slot == kNone) return;
  place.data = nullptr;
  holder_[at(place.slot)] = kNone;
}

}  // namespace ddl
