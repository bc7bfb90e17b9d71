#include "ddl/plan/peers.h"

#include <algorithm>

namespace ddl {

int peer_of(const Plan& plan, int worker, const Task& task) {
  const auto& role = plan.role_of(worker);
  const auto& other = plan.roles[static_cast<std::size_t>(task.peer)];
  const int place = worker - role.first;
  if (task.flip != 0) return (place ^ task.flip) < other.count ? other.first + (place ^ task.flip) : kNone;
  if (task.shift != 0) return other.first + places(place + task.shift, other.count);
  return other.first + std::min(place, other.count - 1);
}

}  // namespace ddl
