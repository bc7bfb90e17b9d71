#include "ddl/train/assemble.h"

#include <algorithm>
#include <functional>

#include <c10/core/GradMode.h>

#include "ddl/core/error.h"
#include "ddl/core/hash.h"
#include "ddl/strategy/split_parts.h"
#include "ddl/train/tensor_buffer.h"

namespace ddl {
namespace {

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

/// Copies a piece to where it belongs in what is whole; `cut`: from that one of its dimensions on.
void put(const TensorPiece& piece, const at::Tensor& of_piece, const at::Tensor& whole, std::size_t cut = 0) {
  if (cut == piece.cuts.size()) {
    whole.copy_(of_piece);
    return;
  }
  std::int64_t at = 0;
  const auto& [dimension, ranges] = piece.cuts[cut];
  for (const auto& [begin, end] : ranges) {
    put(piece, of_piece.narrow(dimension, at, end - begin), whole.narrow(dimension, begin, end - begin), cut + 1);
    at += end - begin;
  }
}

/// The same where layers are split: `values` has the whole parameter's shape. Pieces come from the first who have them; what
/// the worker has itself is as it has it.
void for_each_split_parameter(const Plan& plan, int worker, const ModelGraph& whole, Network& part, Device& device, Communicator& communicator, const Take& take) {
  std::vector<std::vector<ParameterSpec>> specs;  // by part
  for (const auto& each : parts_of(plan, whole)) specs.push_back(each.parameter_specs());
  const auto holders = first_holders(plan, static_cast<int>(specs[0].size()));
  const auto& numbers = part.parameter_numbers();
  const auto axes = axes_of(plan);
  const auto own_part = static_cast<std::size_t>(plan.part_of(worker));
  const auto options = part.tensor_options().device(at::kCPU);
  std::size_t next = 0;
  for (std::size_t i = 0; i < specs[0].size(); ++i) {
    const bool has = next < numbers.size() && numbers[next] == static_cast<int>(i);
    const auto own = has ? fetch(device, part.parameters()[next++].detach()).contiguous() : at::Tensor();
    const auto& piece = specs[own_part][i].piece;
    auto values = at::empty(piece ? piece->whole : specs[0][i].shape, options);
    for (std::size_t p = 0; p < specs.size(); ++p) {
      if (first_with(axes, specs[p][i], static_cast<int>(p)) != static_cast<int>(p)) continue;
      const int holder = holders[i] + static_cast<int>(p);
      auto came = holder == worker ? own.clone() : at::empty(specs[p][i].shape, options);
      communicator.broadcast(buffer_of(came), holder).wait();
      if (!piece)
        values.copy_(came);
      else
        put(*specs[p][i].piece, came, values);
    }
    if (has && piece) put(*piece, own, values);
    take(i, piece ? at::Tensor() : own, values);
  }
}

/// Of each of Network::buffers() of a network that has all layers.
std::vector<ParameterSpec> statistics_of(const ModelGraph& graph) {
  std::vector<ParameterSpec> all;
  for (const auto& layer : graph.layers)
    if (!layer.frozen) all.insert(all.end(), layer.statistics.begin(), layer.statistics.end());
  return all;
}

}  // namespace

bool is_in_parts(const Plan& plan) {
  // A stage without layers, the loss alone, is no part.
  const auto parts = std::count_if(plan.stages.begin(), plan.stages.end(), [](const Stage& stage) { return stage.first < stage.last; });
  return !plan.split.empty() || std::any_of(plan.roles.begin(), plan.roles.end(), [&](const Role& role) { return static_cast<std::ptrdiff_t>(role.stages.size()) < parts; });
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
  if (plan.split.empty())
    for_each_parameter(plan, worker, part, device, &communicator, [&](std::size_t parameter, const at::Tensor&, const at::Tensor& values) {
      flat(whole.parameters()[parameter]).copy_(device.upload(values));
    });
  else
    for_each_split_parameter(plan, worker, whole.graph(), part, device, communicator, [&](std::size_t parameter, const at::Tensor&, const at::Tensor& values) {
      whole.parameters()[parameter].detach().copy_(device.upload(values));
    });
  const auto specs = statistics_of(part.graph());
  const auto& numbers = part.buffer_numbers();
  std::size_t next = 0;
  for (std::size_t i = 0; i < whole.buffers().size(); ++i) {
    const bool has = next < numbers.size() && numbers[next] == static_cast<int>(i);
    auto& buffer = whole.buffers()[i];
    // Sums, and of how many, element by element: workers may have different ones.
    auto sums = at::zeros({2, buffer.numel()}, at::kDouble);
    if (has) {
      const auto own = fetch(device, part.buffers()[next++]).to(at::kDouble);
      const auto both = at::stack({own, at::ones_like(own)});
      if (i < specs.size() && specs[i].piece) {
        auto rows = *specs[i].piece;
        for (auto& cut : rows.cuts) ++cut.dimension;
        put(rows, both, sums);
      } else {
        sums.copy_(both.view({2, -1}));
      }
    }
    communicator.all_reduce(buffer_of(sums), ReduceOp::sum).wait();
    buffer.copy_(device.upload((sums[0] / sums[1]).view(buffer.sizes())));
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

std::string parameters_digest(const Plan& plan, int worker, const ModelGraph& whole, Network& part, Device& device, Communicator* communicator) {
  Hasher hasher;
  const auto add = [&](const at::Tensor& held) { hasher.add({static_cast<const std::byte*>(held.const_data_ptr()), held.nbytes()}); };
  if (plan.split.empty())
    for_each_parameter(plan, worker, part, device, communicator,
                       [&](std::size_t, const at::Tensor& own, const at::Tensor& values) { add(own.defined() ? fetch(device, flat(own)) : values); });
  else
    for_each_split_parameter(plan, worker, whole, part, device, *communicator,
                             [&](std::size_t, const at::Tensor& own, const at::Tensor& values) { add(own.defined() ? own : values); });
  return hasher.digest();
}

}  // namespace ddl
