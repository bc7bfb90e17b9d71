#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ddl/measure/trace.h"
#include "ddl/plan/holdings.h"

namespace ddl {

enum class TaskKind : std::uint8_t {
  load,        ///< take the next batch from the loader
  forward,
  backward,    ///< the last of a step raises the events of buckets as their gradients become complete
  send,        ///< to the worker of role `peer`
  receive,
  collective,  ///< all workers of the plan take part
  update,      ///< the optimizer, on the parameters of one bucket, or all
};

std::string_view name(TaskKind kind);
/// The ledger's line for time that the compute stream spends in a task of this kind.
Cause cause_of(TaskKind kind);

inline constexpr int kNone = -1;

/// One piece of a step's work. Its number is its place in Role::tasks.
struct Task {
  TaskKind kind = TaskKind::load;
  Stream stream = Stream::compute;
  std::string label;             ///< unique within the role: what traces and messages call it
  std::vector<int> after;        ///< tasks of the same role that must be complete before
  int waits_for = kNone;         ///< bucket whose event starts it; raised by `backward` while that runs
  int bucket = kNone;            ///< of collective and update; kNone: all parameters
  int peer = kNone;              ///< role number, of send and receive
  int stage = 0;
  int micro_batch = 0;
  std::int64_t bytes = 0;        ///< moved by send, receive and collective
  double flops = 0;
};

/// Gradients that travel together: numbers of parameters, in the order in which they lie in memory.
struct Bucket {
  std::vector<int> parameters;
  std::int64_t bytes = 0;
};

/// `count` workers that do the same: a plan for 4,096 of them is as small as one for two.
struct Role {
  std::string name;
  int first = 0;
  int count = 1;
  std::vector<Task> tasks;
  Holdings holds;
};

/// One training step of one strategy. Executed, verified, later priced and simulated.
struct Plan {
  std::string strategy;
  int workers = 1;
  std::vector<Bucket> buckets;
  std::vector<Role> roles;

  const Role& role_of(int worker) const;
};

/// What is wrong with a plan; empty where nothing is:
///  - roles that do not cover the workers exactly once, labels used twice, dependencies on tasks that do not exist;
///  - a deadlock, found by running the roles' streams in order without time: names the tasks that cannot start;
///  - collectives that roles join in different orders or with different sizes, sends without their receive;
///  - buckets that miss or repeat a parameter (of `parameters`), or that no update reads;
///  - more memory than `memory_limit` bytes on a worker (0: no limit).
std::vector<std::string> verify(const Plan& plan, int parameters, std::int64_t memory_limit = 0);

}  // namespace ddl
