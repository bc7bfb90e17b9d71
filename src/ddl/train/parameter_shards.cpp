#include "ddl/train/parameter_shards.h"

#include <algorithm>
#include <cstring>
#include <set>

#include <c10/core/GradMode.h>

#include "ddl/core/at.h"
#include "ddl/core/error.h"
#include "ddl/train/tensor_buffer.h"

namespace ddl {
namespace {

/// Gathers that take slots in turn, as buckets, and how many of these are there at once: those asked for before what they wait for is released.
struct Turns {
  std::vector<int> buckets;
  std::size_t together = 0;
};
Turns turns_of(const Role& role) {
  Turns turns;
  std::vector<std::size_t> released(role.tasks.size());  // by task: releases up to it
  std::size_t count = 0;
  const auto in_turn = [&](const Task& task) { return task.bucket != kNone && role.buckets[at(task.bucket)].stage != kNone; };
  for (std::size_t t = 0; t < role.tasks.size(); ++t) {
    const auto& task = role.tasks[t];
    if (task.kind == TaskKind::release && in_turn(task)) ++count;
    released[t] = count;
    if (task.kind != TaskKind::collective || task.cargo != Cargo::parameters || !in_turn(task)) continue;
    turns.buckets.push_back(task.bucket);
    std::size_t before = 0;
    for (const int other : task.after) before = std::max(before, released[at(other)]);
    turns.together = std::max(turns.together, turns.buckets.size() - before);
  }
  return turns;
}

}  // namespace

bool ParameterShards::needed(const Plan& plan, int worker) {
  return plan.role_of(worker).keeps_parts();
}

ParameterShards::ParameterShards(const Plan& plan, int worker, Network& network, Transport& transport, Device& device, bool poison)
    : network_(network), shards_(plan.mesh.find("sharded") >= 0 ? plan.mesh.size("sharded") : plan.workers()), poison_(poison), releases_(plan.role_of(worker).releases()) {
  if (!device.is_host())
    throw Error(Code::unsupported, fmt::format("[shards] unsupported: parameters in parts on a device with memory of its own are not in this version; got {}, expected cpu", device.name()));
  const c10::NoGradGuard guard;
  type_ = parameter_type(network.parameters().at(0));
  element_bytes_ = ddl::size_of(type_);
  layouts_ = shard_layouts(plan, worker, network);
  own_.resize(network.parameters().size());
  place_.resize(layouts_.size());
  releases_ ? keep_parts(transport, plan.role_of(worker)) : keep_whole(transport);
}

ParameterShards::~ParameterShards() {
  for (int bucket = 0; bucket < static_cast<int>(layouts_.size()); ++bucket) refer(bucket, nullptr);
}

void ParameterShards::keep_whole(Transport& transport) {
  const auto options = network_.parameters()[0].options().requires_grad(false);
  for (int bucket = 0; bucket < static_cast<int>(layouts_.size()); ++bucket) {
    const auto& layout = layouts_[at(bucket)];
    auto* const data = place_[at(bucket)] = transport.allocate(aligned(size_of_bucket(bucket))).data();
    bytes_ += static_cast<std::int64_t>(size_of_bucket(bucket));
    for (const auto& each : layout.parameters) std::memcpy(data + each.offset * element_bytes_, network_.parameters()[each.number].const_data_ptr(), each.elements * element_bytes_);
    refer(bucket, data);
    const auto own = at::from_blob(data + layout.own.begin * element_bytes_, {static_cast<std::int64_t>(layout.own.size())}, options);
    for (const auto& each : layout.parameters) own_[each.number] = own_part(own, layout, each, network_.parameters()[each.number]);
  }
}

void ParameterShards::keep_parts(Transport& transport, const Role& role) {
  const auto options = network_.parameters()[0].options().requires_grad(false);
  const auto turns = turns_of(role);
  std::vector<std::size_t> sizes(turns.together);
  for (std::size_t turn = 0; turn < turns.buckets.size(); ++turn) {
    auto& size = sizes[turn % sizes.size()];
    size = std::max(size, size_of_bucket(turns.buckets[turn]));
  }
  const auto allocate = [&](std::size_t bytes) {
    bytes_ += static_cast<std::int64_t>(bytes);
    return transport.allocate(aligned(bytes)).data();
  };
  for (const auto size : sizes) slots_.push_back(allocate(size));
  for (int bucket = 0; bucket < static_cast<int>(layouts_.size()); ++bucket) {
    const auto& layout = layouts_[at(bucket)];
    auto part = at::empty({static_cast<std::int64_t>(layout.own.size())}, options);
    bytes_ += static_cast<std::int64_t>(part.nbytes());
    for (const auto& each : layout.parameters) {
      const auto& parameter = network_.parameters()[each.number];
      own_[each.number] = own_part(part, layout, each, parameter);
      if (each.own.size() > 0)
        std::memcpy(own_[each.number].data_ptr(), static_cast<const std::byte*>(parameter.const_data_ptr()) + each.own.begin * element_bytes_, each.own.size() * element_bytes_);
    }
    parts_.push_back(std::move(part));
    if (layout.bucket.stage == kNone) place_[at(bucket)] = allocate(size_of_bucket(bucket));
    refer(bucket, nullptr);
  }
}

/// What is at `data` is nobody's to free: slots and parts outlive what refers to them.
void ParameterShards::refer(int bucket, std::byte* data) {
  for (const auto& each : layouts_[at(bucket)].parameters) {
    auto* const here = data == nullptr ? nullptr : data + each.offset * element_bytes_;
    network_.parameters()[each.number].storage().unsafeGetStorageImpl()->set_data_ptr_noswap(c10::DataPtr(here, c10::Device(c10::DeviceType::CPU)));
  }
}

Buffer ParameterShards::gather(int bucket) {
  auto*& place = place_[at(bucket)];
  if (releases_ && layouts_[at(bucket)].bucket.stage != kNone) place = slots_[gathers_++ % slots_.size()];
  return {place, layouts_[at(bucket)].elements, type_};
}

void ParameterShards::fill(int bucket) {
  if (!releases_) return;
  const auto& part = parts_[at(bucket)];
  std::memcpy(place_[at(bucket)] + layouts_[at(bucket)].own.begin * element_bytes_, part.const_data_ptr(), part.nbytes());
}

void ParameterShards::attach(int bucket) {
  if (releases_) refer(bucket, place_[at(bucket)]);
}

void ParameterShards::release(int bucket) {
  refer(bucket, nullptr);
  if (poison_) std::memset(place_[at(bucket)], 0xff, size_of_bucket(bucket));  // NaN, in fp32 and fp64
}

void ParameterShards::gather_all(Communicator& communicator) {
  if (!releases_) return;
  invariant(whole_.empty(), "parameters are gathered once at a time");
  for (int bucket = 0; bucket < static_cast<int>(layouts_.size()); ++bucket) {
    const auto& layout = layouts_[at(bucket)];
    auto whole = at::empty({static_cast<std::int64_t>(layout.elements)}, parts_[at(bucket)].options());
    auto* const data = static_cast<std::byte*>(whole.data_ptr());
    std::memcpy(data + layout.own.begin * element_bytes_, parts_[at(bucket)].const_data_ptr(), parts_[at(bucket)].nbytes());
    if (shards_ == communicator.size())
      communicator.start({Goal::all_gather}, {data, layout.elements, type_}).wait();
    else
      // Replicas have the same parts: those of the first are everybody's.
      for (int part = 0; part < shards_; ++part) {
        const auto range = part_of(layout.elements, shards_, part);
        if (range.size() > 0) communicator.broadcast({data + range.begin * element_bytes_, range.size(), type_}, part).wait();
      }
    refer(bucket, data);
    whole_.push_back(std::move(whole));
  }
}

void ParameterShards::release_all() {
  if (!releases_) return;
  for (int bucket = 0; bucket < static_cast<int>(layouts_.size()); ++bucket) refer(bucket, nullptr);
  whole_.clear();
}

}  // namespace ddl
