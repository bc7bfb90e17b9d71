#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "ddl/plan/plan.h"

namespace ddl {

/// What orders the communication of one role: a group's collectives, or the messages of one cargo to or from one role.
struct QueueKey {
  int group = kNone;
  int peer = kNone;
  bool sends = false;
  Cargo cargo = Cargo::none;
  int shift = 0;  ///< from 0 to the role's workers
  int flip = 0;
  auto order() const { return std::tuple(group, peer, sends, cargo, shift, flip); }
  bool operator<(const QueueKey& other) const { return order() < other.order(); }
};
/// Tasks in their order.
using Queues = std::map<QueueKey, std::vector<int>>;

constexpr bool is_transfer(const Task& task) { return task.kind == TaskKind::send || task.kind == TaskKind::receive; }
/// Whether what it moves goes by samples: what layers exchange, and what loaders read. Plans count the bytes of the largest micro-batch.
constexpr bool goes_by_samples(const Task& task) {
  return task.cargo == Cargo::activations || task.cargo == Cargo::activation_gradients || task.cargo == Cargo::inputs || (task.kind == TaskKind::collective && task.layer != kNone);
}
constexpr bool communicates(const Task& task) { return is_transfer(task) || task.kind == TaskKind::collective; }

Queues communication_queues(const Role& role);

/// How many batches ahead of the present one a role's workers are, at most.
int depth(const Role& role);

/// The roles of a group's members, that of the role's first worker among them; ascending.
std::vector<int> roles_of_group(const Plan& plan, int group, int role);

/// Who meets whom, and in which queues.
struct Meetings {
  bool asynchronous = false;              ///< Plan::asynchronous(), for which all tasks are looked at
  std::vector<Queues> queues;             ///< by role
  std::vector<std::vector<int>> numbers;  ///< by role and task: of its meeting, or kNone
};

/// In asynchronous plans sender and receiver of a message may be in different places of their steps: those are matched by what they are of.
Meetings meetings(const Plan& plan);

}  // namespace ddl
