#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ddl/plan/plan.h"

namespace ddl {

/// Payload bytes that one worker sends another in a step; of tasks that are not done in every step, their share.
struct PairBytes {
  int from = 0;
  int to = 0;
  double bytes = 0;
  bool operator==(const PairBytes&) const = default;
};

/// How collectives move what they move.
struct CollectiveWays {
  /// The algorithm of a task between so many ranks, as users write it. None, or `native`: a library's, counted as rings, in which each rank sends to the next.
  std::function<std::string(const Task& task, int ranks)> algorithm = {};
  int element = 4;              ///< bytes of one number; of cargo `control` and `norms` they are 8
  double filled = 1;            ///< of what plans count of layers' values, which is of the largest micro-batch, what all together are
  std::vector<int> hosts = {};  ///< of workers, for algorithms that care; empty: all on one
};

/// Samples that a plan has places for in each share of a batch: micro-batches that do not divide are all counted as large as the largest.
std::int64_t places_of_share(const Plan& plan, std::int64_t batch);

/// What a step of a plan moves, by sender and receiver, in ascending order: as Transport::traffic() counts it. Words that go before messages of servers are not in it.
/// Errors: those of choose_algorithm().
std::vector<PairBytes> bytes_between(const Plan& plan, const CollectiveWays& ways);

/// What joins workers: those at one place among each other, and places.
struct LinkRates {
  std::string place = "node";  ///< what workers stand in: node, host
  std::vector<int> places;     ///< by worker
  double inside = 0;           ///< bytes/s each way of one worker, to others at its place; 0: not known
  double wires = 0;            ///< bytes/s each way of a place, to others; 0: not known
};

/// What passes one of them in a step.
struct LinkUse {
  std::string link;            ///< "inside node 0", "wires of node 0"
  double sent = 0;             ///< bytes: inside a place by all its workers; over its wires to other places
  double received = 0;
  double busiest = 0;          ///< bytes, the larger way: of one worker inside, of the place over wires
  double bytes_per_s = 0;      ///< for that, each way; 0: not known

  /// The share of a step of so many seconds in which the busiest way is in use; 0 where the rate is not known.
  double full(double seconds) const { return bytes_per_s > 0 && seconds > 0 ? busiest / bytes_per_s / seconds : 0; }
};

/// Links that something passes, by place.
std::vector<LinkUse> links_of(const std::vector<PairBytes>& pairs, const LinkRates& rates);

}  // namespace ddl
