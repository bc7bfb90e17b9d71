#include "ddl/plan/meetings.h"

#include <algorithm>

#include "ddl/plan/peers.h"

namespace ddl {
namespace {

bool valid_role(const Plan& plan, int role) { return role >= 0 && role < static_cast<int>(plan.roles.size()); }

/// The place in `theirs` of what is `own`'s k-th.
std::size_t counterpart(const Role& sender, const std::vector<int>& own, std::size_t k, const Role& receiver, const std::vector<int>& theirs, bool in_order) {
  if (in_order) return k;
  const auto& task = sender.tasks[static_cast<std::size_t>(own[k])];
  const auto found = std::find_if(theirs.begin(), theirs.end(), [&](int number) {
    const auto& other = receiver.tasks[static_cast<std::size_t>(number)];
    return other.stage == task.stage && other.to_stage == task.to_stage && other.micro_batch == task.micro_batch;
  });
  return static_cast<std::size_t>(found - theirs.begin());
}

}  // namespace

int depth(const Role& role) {
  int most = 0;
  for (const auto& task : role.tasks) most = std::max(most, task.ahead);
  return most;
}

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
  const bool in_order = !plan.asynchronous();
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
        const auto& sender = plan.roles[static_cast<std::size_t>(r)];
        const auto& receiver = plan.roles[static_cast<std::size_t>(key.peer)];
        for (std::size_t k = 0; k < std::min(tasks.size(), found->second.size()); ++k)
          if (const auto place = counterpart(sender, tasks, k, receiver, found->second, in_order); place < found->second.size())
            number_of(r, tasks[k]) = number_of(key.peer, found->second[place]) = next++;
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
