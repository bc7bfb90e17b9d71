#include "ddl/plan/meetings.h"

#include <algorithm>
#include <array>
#include <utility>

#include "ddl/plan/peers.h"

namespace ddl {
namespace {

bool valid_role(const Plan& plan, int role) { return role >= 0 && role < static_cast<int>(plan.roles.size()); }

/// Where in a receiver's queue there is what a sender's task is of.
class Counterparts {
 public:
  Counterparts(const Role& receiver, const std::vector<int>& queue) {
    for (std::size_t k = 0; k < queue.size(); ++k) places_.emplace_back(what(receiver, queue[k]), k);
    std::sort(places_.begin(), places_.end());
  }

  /// The first; the queue's length where there is none.
  std::size_t of(const Role& sender, int task) const {
    const auto wanted = what(sender, task);
    const auto found = std::lower_bound(places_.begin(), places_.end(), std::pair(wanted, std::size_t{0}));
    return found == places_.end() || found->first != wanted ? places_.size() : found->second;
  }

 private:
  using What = std::array<int, 3>;
  static What what(const Role& role, int number) {
    const auto& task = role.tasks[static_cast<std::size_t>(number)];
    return {task.stage, task.to_stage, task.micro_batch};
  }

  std::vector<std::pair<What, std::size_t>> places_;
};

/// Queues by what was asked for last, first: a role has a few of them, or thousands one after the other.
class QueueFinder {
 public:
  std::vector<int>& of(const QueueKey& key) {
    if (last_ == nullptr || last_->first.order() != key.order()) {
      const auto recent = std::find_if(recent_.begin(), recent_.end(), [&](const auto* each) { return each != nullptr && each->first.order() == key.order(); });
      last_ = recent != recent_.end() ? *recent : &*queues_.try_emplace(key).first;
      if (recent == recent_.end()) recent_[next_++ % recent_.size()] = last_;
    }
    return last_->second;
  }
  Queues take() { return std::move(queues_); }

 private:
  Queues queues_;
  std::array<Queues::value_type*, 6> recent_{};
  std::size_t next_ = 0;
  Queues::value_type* last_ = nullptr;
};

}  // namespace

int depth(const Role& role) {
  int most = 0;
  for (const auto& task : role.tasks) most = std::max(most, task.ahead);
  return most;
}

Queues communication_queues(const Role& role) {
  QueueFinder queues;
  for (std::size_t t = 0; t < role.tasks.size(); ++t) {
    const auto& task = role.tasks[t];
    if (!communicates(task)) continue;
    const auto key = is_transfer(task) ? QueueKey{kNone, task.peer, task.kind == TaskKind::send, task.cargo, places(task.shift, role.count), task.flip} : QueueKey{task.group};
    queues.of(key).push_back(static_cast<int>(t));
  }
  return queues.take();
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

Meetings meetings(const Plan& plan) {
  Meetings all{plan.asynchronous(), {}, {}};
  auto& [asynchronous, queues, numbers] = all;
  for (const auto& role : plan.roles) {
    numbers.emplace_back(role.tasks.size(), kNone);
    queues.push_back(communication_queues(role));
  }
  const auto number_of = [&numbers = all.numbers](int role, int task) -> int& { return numbers[static_cast<std::size_t>(role)][static_cast<std::size_t>(task)]; };
  int next = 0;
  const bool in_order = !asynchronous;
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
        const Counterparts counterparts(receiver, in_order ? std::vector<int>{} : found->second);
        for (std::size_t k = 0; k < std::min(tasks.size(), found->second.size()); ++k)
          if (const auto place = in_order ? k : counterparts.of(sender, tasks[k]); place < found->second.size())
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
  return all;
}

void number_meetings(Plan& plan) {
  const auto numbers = meetings(plan).numbers;
  for (std::size_t r = 0; r < plan.roles.size(); ++r)
    for (std::size_t t = 0; t < numbers[r].size(); ++t) plan.roles[r].tasks[t].meeting = numbers[r][t];
}

}  // namespace ddl
