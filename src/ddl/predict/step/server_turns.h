#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

#include "ddl/plan/plan.h"

namespace ddl {

/// Whether workers step by themselves: servers of parameters apply each gradient as it comes, and how fast all are is the sum of how fast each is.
bool steps_apart(const Plan& plan);

/// What a server that answers each worker by itself does next: one thing at a time, in the order in which it was asked, a gradient applied or parameters given; and these to nobody who is further ahead of
/// the slowest than it allows (Ho et al., More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server, NIPS 2013).
class ServerTurns {
 public:
  struct Turn {
    int actor = 0, step = 0, task = 0;
    bool push = false;
  };

  /// `stale`: steps that the slowest may be behind one that is given parameters; kNone: any number.
  ServerTurns(std::size_t actors, int stale) : pushed_(actors), stale_(stale) {}

  void ask(const Turn& turn);
  /// Whose turn it is, where the server is free; it has the turn then.
  std::optional<Turn> next();
  /// What had the turn is done.
  void over(const Turn& turn);

 private:
  bool may(const Turn& turn) const;

  std::vector<int> pushed_;      ///< by actor: steps whose gradients were applied
  int stale_;
  bool busy_ = false;
  std::deque<Turn> waiting_;     ///< in the order in which they asked; who may not yet is passed over
};

}  // namespace ddl
