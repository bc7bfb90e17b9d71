#pragma once

#include <vector>

#include "ddl/predict/schedule_group.h"

namespace ddl {

/// What ranks share.
struct SharedMachine {
  /// Cores of the machine that the ranks run on; ranks beyond them take turns, evenly. 0: one each.
  int cores = 0;
  /// Hosts of the ranks, and what one host's link carries each way, bytes/s; ranks of a host share it evenly. Empty: none.
  std::vector<int> hosts = {};
  double link = 0;
};

/// When a rank was in a round.
struct RoundSpan {
  int rank = 0;
  int round = 0;
  double begin = 0;  ///< s; all that it takes was offered
  double end = 0;    ///< s; its own work was over
};

struct Simulated {
  double seconds = 0;  ///< until the last rank is done, all having started together
  std::vector<RoundSpan> spans;
  std::vector<std::size_t> bytes_sent;  ///< by rank
};

/// Runs the schedules in virtual time, event by event. As price(), but rounds that are under way at once share what the
/// machine has of cores and links: each is slowed by the number of those that want the same.
Simulated simulate(const ScheduleGroup& group, const UnitCosts& costs, const SharedMachine& machine);

}  // namespace ddl
