#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "ddl/collective/communicator.h"
#include "ddl/plan/plan.h"

namespace ddl {

/// The communicators that a worker's tasks need: one for each group that it is in, one for the messages of each cargo to each worker and one for
/// those from it, so that what the plan lets run beside each other does.
class Channels {
 public:
  /// Collective: all workers make theirs from the same plan. `everyone` outlives this object; it may be null where the worker's role
  /// communicates nothing.
  Channels(const Plan& plan, int worker, Communicator* everyone);

  /// Whose collective a task is.
  Communicator& of_collective(const Task& task) const;

  /// A message's communicator, and what is asked of it: from rank 0 to rank 1.
  Communicator& of_transfer(const Task& task) const;
  static Collective transfer();

  /// The lowest worker of a task's group, or the one that sends: with Task::meeting it tells the event from those of other workers of the role.
  int first_member(const Task& task) const;

  /// Payload bytes of all of them but `everyone`.
  Traffic traffic() const;

 private:
  using Key = std::tuple<int, int, Cargo>;  ///< from one worker to another
  Key key_of(const Task& task) const;

  const Plan plan_;
  int worker_;
  Communicator* everyone_;
  std::map<int, std::unique_ptr<Communicator>> groups_;
  std::map<int, int> first_members_;  ///< of groups
  std::map<Key, std::unique_ptr<Communicator>> transfers_;
};

}  // namespace ddl
