#include "ddl/plan/plan.h"

#include <array>

#include "ddl/core/error.h"

namespace ddl {

std::string_view name(TaskKind kind) {
  constexpr std::array<std::string_view, 7> kNames{"load", "forward", "backward", "send", "receive", "collective", "update"};
  return kNames[static_cast<std::size_t>(kind)];
}

Cause cause_of(TaskKind kind) {
  switch (kind) {
    case TaskKind::load: return Cause::load;
    case TaskKind::forward: return Cause::forward;
    case TaskKind::backward: return Cause::backward;
    case TaskKind::send:
    case TaskKind::receive:
    case TaskKind::collective: return Cause::communication;
    case TaskKind::update: return Cause::update;
  }
  return Cause::residual;
}

const Role& Plan::role_of(int worker) const {
  for (const auto& role : roles)
    if (worker >= role.first && worker < role.first + role.count) return role;
  throw Error(Code::invalid_argument, fmt::format("[plan] no role for worker {}; got {} workers", worker, workers));
}

}  // namespace ddl
