#include "ddl/train/assemble.h"

#include <algorithm>
#include <functional>

#include <c10/core/GradMode.h>

#include "ddl/core/error.h"
#include "ddl/core/hash.h"

namespace ddl {
namespace {

ElementType type_of(const at::Tensor& tensor) { return tensor.scalar_type() == at::kDouble ? ElementType::fp64 : ElementType::fp32; }

Buffer buffer_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), static_cast<std::size_t>(tensor.numel()), type_of(tensor)};
}

/// Dense in whatever order of dimensions: all workers keep the same one.
at::Tensor flat(const at::Tensor& tensor) { return tensor.detach().as_strided({tensor.numel()}, {1}); }

using Take = std::function<void(std::size_t parameter, const at::Tensor& own, const at::Tensor& values)>;

/// Gives `take` every parameter of the network in order: the worker's own tensor, or an undefined one, and the first holder's elements on the host.
void for_each_parameter(const Plan& plan, int worker, Network& part, Device& device, Communicator* communicator, const Take& take) {
  const auto specs = part.graph().parameter_specs();
  const auto holders = first_holders(plan, static_cast<int>(specs.size()));
  const auto& numbers = part.parameter_numbers();
  const bool in_parts = is_in_parts(plan);
  std::size_t next = 0;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const bool has = next < numbers.size() && numbers[next] == static_cast<int>(i);
    const auto own = has ? part.parameters()[next++] : at::Tensor();
    at::Tensor values;
    if (!in_parts) {
      values = fetch(device, flat(own));
    } else {
      values = holders[i] == worker ? fetch(device, flat(own)) : at::empty({specs[i].elements()}, part.tensor_options().device(at::kCPU));
      communicator->broadcast(buffer_of(values), holders[i]).wait();
    }
    take(i, own, values);
  }
}

}  // namespace

bool is_in_parts(const Plan& plan) {
  // A stage without layers, the loss alone, is no part.
  const auto parts = std::count_if(plan.stages.begin(), plan.stages.end(), [](const Stage& stage) { return stage.first < stage.last; });
  return std::any_of(plan.roles.begin(), plan.roles.end(), [&](const Role& role) { return static_cast<std::ptrdiff_t>(role.stages.size()) < parts; });
}

std::vector<bool> layers_of(const Plan& plan, int worker) {
  if (!is_in_parts(plan)) return {};
  std::vector<bool> layers(static_cast<std::size_t>(plan.stages.back().last));
  for (const int stage : plan.role_of(worker).stages) {
    const auto& held = plan.stages[static_cast<std::size_t>(stage)];
    std::fill(layers.begin() + held.first, layers.begin() + held.last, true);
  }
  return layers;
}

std::vector<int> first_holders(const Plan& plan, int parameters) {
  std::vector<int> holders(static_cast<std::size_t>(parameters), kNone);
  for (const auto& role : plan.roles)
    for (const int stage : role.stages)
      for (const int parameter : plan.stages[static_cast<std::size_t>(stage)].parameters)
        if (auto& holder = holders[static_cast<std::size_t>(parameter)]; holder == kNone) holder = role.first;
  return holders;
}

void assemble(const Plan& plan, int worker, Network& part, Device& device, Communicator& communicator, Network& whole) {
  const c10::NoGradGuard guard;
  for_each_parameter(plan, worker, part, device, &communicator, [&](std::size_t parameter, const at::Tensor&, const at::Tensor& values) {
    flat(whole.parameters()[parameter]).copy_(device.upload(values));
  });
  const auto& numbers = part.buffer_numbers();
  std::size_t next = 0;
  for (std::size_t i = 0; i < whole.buffers().size(); ++i) {
    const bool has = next < numbers.size() && numbers[next] == static_cast<int>(i);
    auto& buffer = whole.buffers()[i];
    auto sums = at::zeros({buffer.numel() + 1}, at::kDouble);
    if (has) {
      sums.narrow(0, 0, buffer.numel()).copy_(fetch(device, part.buffers()[next++]));
      sums[buffer.numel()] = 1;
    }
    communicator.all_reduce(buffer_of(sums), ReduceOp::sum).wait();
    buffer.copy_(device.upload(sums.narrow(0, 0, buffer.numel()) / sums[buffer.numel()]));
  }
}

void average_replicas(Network& part, Device& device, Communicator& communicator, Network& whole) {
  const c10::NoGradGuard guard;
  const auto average = [&](const std::vector<at::Tensor>& from, const std::vector<at::Tensor>& to) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      auto values = fetch(device, flat(from[i])).clone();
      communicator.all_reduce(buffer_of(values), ReduceOp::average).wait();
      flat(to[i]).copy_(device.upload(values));
    }
  };
  average(part.parameters(), whole.parameters());
  average(part.buffers(), whole.buffers());
}

std::string parameters_digest(const Plan& plan, int worker, Network& part, Device& device, Communicator* communicator) {
  Hasher hasher;
  for_each_parameter(plan, worker, part, device, communicator, [&](std::size_t, const at::Tensor& own, const at::Tensor& values) {
    const auto held = own.defined() ? fetch(device, flat(own)) : values;
    hasher.add({static_cast<const std::byte*>(held.const_data_ptr()), held.nbytes()});
  });
  return hasher.digest();
}

}  // namespace ddl
