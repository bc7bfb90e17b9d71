#include "ddl/train/channels.h"

#include <algorithm>
#include <set>

#include "ddl/core/error.h"
#include "ddl/core/numbers.h"
#include "ddl/plan/meetings.h"
#include "ddl/plan/peers.h"

namespace ddl {

// Making a communicator is itself a meeting of its members. Everyone makes them in one order that all agree on, groups by number, then pairs by their
// workers, so that nobody waits for somebody who waits for them.
Channels::Channels(const Plan& plan, int worker, Communicator* everyone) : plan_(plan), worker_(worker), everyone_(everyone) {
  const auto& role = plan.role_of(worker);
  std::set<int> used;
  std::set<Key> pairs;
  for (const auto& task : role.tasks) {
    if (task.kind == TaskKind::collective) used.insert(task.group);
    // Servers have links of their own (server_links.h).
    if (is_transfer(task) && plan.serving.servers == 0 && peer_of(plan, worker, task) != kNone) pairs.insert(key_of(task));
  }
  const auto all = first_numbers(plan.workers());
  for (const int number : used) {
    invariant(everyone_ != nullptr, "a plan with collectives has a communicator");
    const auto together = members(plan.mesh, plan.groups[static_cast<std::size_t>(number)], worker);
    first_members_[number] = *std::min_element(together.begin(), together.end());
    groups_[number] = together == all ? nullptr : everyone_->group(together);
  }
  for (const auto& key : pairs) {
    invariant(everyone_ != nullptr, "a plan with messages has a communicator");
    transfers_[key] = everyone_->group({std::get<0>(key), std::get<1>(key)});
  }
}

Channels::Key Channels::key_of(const Task& task) const {
  const int peer = peer_of(plan_, worker_, task);
  return task.kind == TaskKind::send ? Key{worker_, peer, task.cargo} : Key{peer, worker_, task.cargo};
}

Communicator& Channels::of_collective(const Task& task) const {
  const auto& own = groups_.at(task.group);
  return own ? *own : *everyone_;
}

Communicator& Channels::of_transfer(const Task& task) const { return *transfers_.at(key_of(task)); }

Collective Channels::transfer() {
  Collective what{Goal::point_to_point};
  what.root = 0;
  what.peer = 1;
  return what;
}

int Channels::first_member(const Task& task) const {
  if (plan_.serving.servers > 0) return worker_;  // each has messages of its own with a server
  if (!is_transfer(task)) return first_members_.at(task.group);
  // Of a ring of two the one's message and the other's are two events.
  return std::get<0>(key_of(task));
}

Traffic Channels::traffic() const {
  Traffic sum;
  const auto add = [&](const std::unique_ptr<Communicator>& each) {
    if (!each) return;
    sum.sent += each->transport().traffic().sent;
    sum.received += each->transport().traffic().received;
  };
  for (const auto& [number, group] : groups_) add(group);
  for (const auto& [key, pair] : transfers_) add(pair);
  return sum;
}

}  // namespace ddl
