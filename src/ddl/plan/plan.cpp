#include "ddl/plan/plan.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "ddl/core/error.h"
#include "ddl/plan/meetings.h"

namespace ddl {

std::string_view name(TaskKind kind) {
  constexpr std::array<std::string_view, 11> kNames{"load", "forward", "backward", "backward-input", "backward-weight", "send", "receive", "collective", "update", "release", "average"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view name(Cargo cargo) {
  constexpr std::array<std::string_view, 9> kNames{"none", "activations", "activation gradients", "gradients", "parameters", "control", "norms", "state", "inputs"};
  return kNames[static_cast<std::size_t>(cargo)];
}

Cause cause_of(TaskKind kind) {
  switch (kind) {
    case TaskKind::load: return Cause::load;
    case TaskKind::forward: return Cause::forward;
    case TaskKind::backward:
    case TaskKind::backward_input:
    case TaskKind::backward_weight: return Cause::backward;
    case TaskKind::send:
    case TaskKind::receive:
    case TaskKind::collective: return Cause::communication;
    case TaskKind::update:
    case TaskKind::release:
    case TaskKind::average: return Cause::update;
  }
  return Cause::residual;
}

bool Role::releases() const {
  return std::any_of(tasks.begin(), tasks.end(), [](const Task& task) { return task.kind == TaskKind::release; });
}

bool Role::keeps_parts() const {
  return std::any_of(tasks.begin(), tasks.end(), [](const Task& task) { return task.kind == TaskKind::collective && task.cargo == Cargo::parameters && task.goal == Goal::all_gather; });
}

bool Plan::asynchronous() const {
  return std::any_of(roles.begin(), roles.end(), [](const Role& role) { return depth(role) > 0; });
}

std::vector<int> Plan::part_axes() const {
  std::vector<int> sizes;
  for (const auto& axis : mesh.axes)
    if (!split.empty() && axis.name.starts_with("tensor")) sizes.push_back(axis.size);
  return sizes;
}

int Plan::parts() const {
  int product = 1;
  for (const int size : part_axes()) product *= size;
  return product;
}

int Plan::role_number(int worker) const {
  const auto after = std::upper_bound(roles.begin(), roles.end(), worker, [](int number, const Role& role) { return number < role.first; });
  if (after != roles.begin() && worker < std::prev(after)->first + std::prev(after)->count) return static_cast<int>(after - roles.begin()) - 1;
  throw Error(Code::invalid_argument, fmt::format("[plan] no role for worker {}; got {} workers", worker, workers()));
}

}  // namespace ddl
