#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ddl/plan/schedule.h"
#include "ddl/predict/wire_cost.h"

namespace ddl {

/// Whose schedules a collective has, and of what.
struct ChosenSchedules {
  Algorithm algorithm;
  CollectiveShape shape;
};

/// Of so many bytes, in numbers of `element` bytes, rounded up to what all ranks have alike. `algorithm`: as users write it. `hosts`: of ranks, for algorithms that care; empty: all on one. Errors: those of choose_algorithm().
ChosenSchedules chosen_schedules(Goal goal, const std::string& algorithm, std::size_t bytes, int ranks, std::size_t element, std::vector<int> hosts = {});

/// One end of a message: round `round` of rank `rank`, and how long the message is.
struct RoundOf {
  int rank = 0;
  int round = 0;
  std::size_t bytes = 0;
};

/// One round of one rank as pricing and simulating see it.
struct RoundWork {
  Counts counts;                   ///< what it costs the rank itself
  std::vector<RoundOf> from;       ///< whose rounds send what it takes
  std::vector<RoundOf> to;         ///< whose rounds take what it sends
};

/// The schedules of all ranks with every message's two ends found.
struct ScheduleGroup {
  std::vector<std::vector<RoundWork>> ranks;
  std::vector<std::size_t> bytes_sent;  ///< by rank, as Transport::traffic() counts them
};

/// `element`: bytes of one. Errors: invalid_argument for a message without a counterpart (verify() says more).
ScheduleGroup group_schedules(const Algorithm& algorithm, const CollectiveShape& shape, std::size_t element);

/// How a transport that shares memory runs a schedule that is one reduction of a slice: between two meetings each rank
/// reads its slice of all buffers and writes the sum to all (collective/execute.h). Counted as two rounds without
/// messages, and the bytes of what it reads and writes in others' memory.
Counts one_shot_counts(const CollectiveShape& shape, std::size_t element);

}  // namespace ddl
