#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ddl/collective/communicator.h"
#include "ddl/transport/builtin.h"

namespace ddl {

/// One collective to be timed: fp32, in place, a sum where it reduces.
struct ProbeCase {
  Goal goal = Goal::all_reduce;
  std::string algorithm;   ///< as users write it, without the goal
  std::size_t bytes = 0;   ///< of each rank's buffer, a multiple of 4 (of all_to_all, of 4 P)
};

struct ProbeSettings {
  std::string transport;
  TransportOptions options;
  std::vector<int> hosts = {};  ///< of the ranks; empty: all on one
  /// Called by each rank before anything else: goes where it belongs, and returns the transport's options there. May be empty.
  std::function<TransportOptions(int rank)> enter = {};
  /// Whose the buffers are: "own", the transport's; "outside", the heap's; "evicted", the transport's, which have left the caches since they were written, as gradients of large networks have.
  std::string memory = "own";
  bool check = true;            ///< compare every element with what it must be, before anything is timed
  Seconds budget{0.1};          ///< for the timing of one case
  Seconds timeout{30};
  std::vector<ProbeCase> cases;
};

/// Times of one rank: seconds of one collective in each block of repetitions.
using ProbeTimes = std::vector<double>;

/// Bounds of a size, s (limits.h); below 0: not measured.
struct ProbeLimits {
  double exchange = -1;  ///< every rank to its neighbour at once
  double one_way = -1;   ///< one rank to another
  double reduce = -1;    ///< an all-reduce in shared memory
};

/// From so many bytes on each rank writes its buffer anew before each repetition, as training does with gradients: what a core
/// read of another's unchanged buffer, or wrote itself, would otherwise still lie in its own cache.
inline constexpr std::size_t kFreshFrom = std::size_t{64} << 10;

/// What a rank learns.
struct ProbeEvents {
  std::function<void(bool shares_memory)> joined;                                         ///< before anything is measured
  std::function<void(std::size_t number, const ProbeTimes& times)> timed;                 ///< case by case
  std::function<void(std::size_t bytes, const ProbeLimits& limits)> limit;
  std::function<void(std::size_t number, std::int64_t bytes)> sent;                       ///< by this rank in one collective, where checked
};

/// A rank's part of the whole probe. Cases of one size are timed by turns (A B B A), so that drift hits all alike. Small
/// repetitions follow each other without a barrier between them, rooted ones with a root that wanders, so that none can run ahead;
/// from kFreshFrom on each is timed alone, after a barrier.
/// Errors: those of collectives; corrupt where the data check fails (which case, element, got, expected).
void probe_rank(Rendezvous& rendezvous, const ProbeSettings& settings, const ProbeEvents& events);

}  // namespace ddl
