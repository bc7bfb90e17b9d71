#include "ddl/predict/step/placed_actors.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "ddl/core/at.h"
#include "ddl/plan/meetings.h"
#include "ddl/plan/occasion.h"
#include "ddl/plan/peers.h"

namespace ddl {
namespace {

/// Bytes of a role's communication, by whom it is with.
struct Exchanged {
  explicit Exchanged(const Role& role) {
    for (const auto& task : role.tasks) {
      const double bytes = static_cast<double>(task.bytes) * share_of_steps(task);
      if (task.kind == TaskKind::collective) groups[task.group] += bytes;
      else if (is_transfer(task)) messages.try_emplace({task.peer, task.shift, task.flip}, &task, 0).first->second.second += bytes;
    }
  }
  std::map<int, double> groups;
  std::map<std::tuple<int, int, int>, std::pair<const Task*, double>> messages;
};

/// By worker of the role, what crosses wires. Of groups over as many nodes, those with fewer workers on each have more to send.
std::vector<double> over_wires(const Plan& plan, const Role& role, const std::vector<int>& places) {
  const Exchanged exchanged(role);
  std::vector<double> out(at(role.count));
  for (const auto& [group, bytes] : exchanged.groups) {
    std::vector<bool> seen(out.size());
    for (int worker = role.first; worker < role.first + role.count; ++worker) {
      if (seen[at(worker - role.first)]) continue;
      const auto together = members(plan.mesh, plan.groups[at(group)], worker);
      std::set<int> nodes;
      for (const int member : together) nodes.insert(places[at(member)]);
      const double crossing = nodes.size() < 2 ? 0 : bytes * (1 + static_cast<double>(nodes.size()) / static_cast<double>(together.size()));
      for (const int member : together) {
        if (member < role.first || member >= role.first + role.count) continue;
        seen[at(member - role.first)] = true;
        out[at(member - role.first)] += crossing;
      }
    }
  }
  for (const auto& [whom, message] : exchanged.messages)
    for (int worker = role.first; worker < role.first + role.count; ++worker)
      if (const int peer = peer_of(plan, worker, *message.first); peer != kNone && places[at(peer)] != places[at(worker)]) out[at(worker - role.first)] += message.second;
  return out;
}

}  // namespace

bool at_several_places(const Plan& plan, const std::function<int(int)>& place) {
  for (int worker = 1; worker < plan.workers(); ++worker)
    if (place(worker) != place(0)) return true;
  return false;
}

std::vector<Actor> placed_actors(const Plan& plan, const std::function<int(int)>& place) {
  auto actors = roles_as_actors(plan);
  if (!at_several_places(plan, place)) return actors;
  std::vector<int> places;
  for (int worker = 0; worker < plan.workers(); ++worker) places.push_back(place(worker));
  for (auto& actor : actors) {
    if (actor.count < 2) continue;
    const auto crossing = over_wires(plan, plan.roles[at(actor.role)], places);
    actor.worker += static_cast<int>(std::max_element(crossing.begin(), crossing.end()) - crossing.begin());
  }
  return actors;
}

}  // namespace ddl
