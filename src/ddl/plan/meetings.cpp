#include "ddl/plan/meetings.h"

#include <algorithm>

#include "ddl/plan/peers.h"

namespace ddl {
namespace {

bool valid_role(const Plan& plan, int role) { return role >= 0 && role < static_cast<int>(plan.roles.size()); }

}  // namespace

Queues communication_queues(const Role& role) {
  Queues queues;
  for (std::size_t t = 0; t < role.tasks.size(); ++t) {
    const auto& task = role.tasks[t];
    if (!communicates(task)) continue;
    const auto key = is_transfer(task) ? QueueKey{kNone, task.peer, task.kind == TaskKind::send, task.cargo, places(task.shift, role.count), task.flip} : QueueKey{task.group};
    queues[key].push_back(static_cast<int>(t));
  }
  return queues;
}

std::vector<int> roles_of_group(const Plan& plan, int group, int role) {
  std::vector<int> roles;
  const auto& pattern = plan.groups[static_cast<std::size_t>(group)];
  const auto& own = plan.roles[static_cast<std::size_t>(role)];
  for (const int worker : members(plan.mesh, pattern, own.first)) {
    // Members of one role stand together.
    if (worker >= own.first && worker < own.first + own.count) {
      if (roles.empty() || roles.back() != role) roles.push_back(role);
    } else if (const int other = plan.role_number(worker); roles.empty() || roles.back() != other) {
      roles.push_back(other);
    }
  }
  std::sort(roles.begin(), roles.end());
  roles.erase(std::unique(roles.begin(), roles.end()), roles.end());
  return roles;
}

std::vector<std::vector<int>> meetings(const Plan& plan) {
  std::vector<std::vector<int>> numbers;
  std::vector<Queues> queues;
  for (const auto& role : plan.roles) {
    numbers.emplace_back(role.tasks.size(), kNone);
    queues.push_back(communication_queues(role));
  }
  const auto number_of = [&](int role, int task) -> int& { return numbers[static_cast<std::size_t>(role)][static_cast<std::size_t>(task)]; };
  int next = 0;
  std::vector<std::vector<bool>> numbered(plan.groups.size(), std::vector<bool>(plan.roles.size()));
  for (int r = 0; r < static_cast<int>(plan.roles.size()); ++r)
    for (const auto& [key, tasks] : queues[static_cast<std::size_t>(r)]) {
      if (key.group == kNone) {
        if (!key.sends || !valid_role(plan, key.peer)) continue;
        const auto& theirs = queues[static_cast<std::size_t>(key.peer)];
        // What goes so many places on comes from as many places back.
        const int back = places(-key.shift, plan.roles[static_cast<std::size_t>(r)].count);
        const auto found = theirs.find({kNone, r, false, key.cargo, back, key.flip});
        if (found == theirs.end()) continue;
        for (std::size_t k = 0; k < std::min(tasks.size(), found->second.size()); ++k)
          number_of(r, tasks[k]) = number_of(key.peer, found->second[k]) = next++;
        continue;
      }
      if (key.group < 0 || key.group >= static_cast<int>(plan.groups.size())) continue;
      auto& of_group = numbered[static_cast<std::size_t>(key.group)];
      if (of_group[static_cast<std::size_t>(r)]) continue;
      const auto together = roles_of_group(plan, key.group, r);
      std::size_t common = tasks.size();
      std::vector<const std::vector<int>*> lists;
      for (const int role : together) {
        of_group[static_cast<std::size_t>(role)] = true;
        const auto found = queues[static_cast<std::size_t>(role)].find(key);
        lists.push_back(found == queues[static_cast<std::size_t>(role)].end() ? nullptr : &found->second);
        common = std::min(common, lists.back() == nullptr ? 0 : lists.back()->size());
      }
      for (std::size_t k = 0; k < common; ++k, ++next)
        for (std::size_t i = 0; i < together.size(); ++i) number_of(together[i], (*lists[i])[k]) = next;
    }
  return numbers;
}

void number_meetings(Plan& plan) {
  const auto numbers = meetings(plan);
  for (std::size_t r = 0; r < plan.roles.size(); ++r)
    for (std::size_t t = 0; t < numbers[r].size(); ++t) plan.roles[r].tasks[t].meeting = numbers[r][t];
}

}  // namespace ddl
