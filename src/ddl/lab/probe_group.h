#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ddl/lab/run.h"
#include "ddl/probe/collectives.h"

namespace ddl {

class AgentHub;
class Fabric;

/// What one group of ranks measured.
struct ProbedGroup {
  std::string transport;
  int ranks = 0;
  std::vector<ProbeCase> cases;
  bool shares_memory = false;
  std::vector<std::vector<ProbeTimes>> times;         ///< by case and rank; empty where it did not come to that
  std::vector<std::vector<std::int64_t>> sent;        ///< by case and rank, bytes; -1: not counted
  std::map<std::size_t, ProbeLimits> limits;          ///< by size; the slowest rank's
  std::string failed;                                 ///< why; empty where it is complete
  bool interrupted = false;

  bool complete(std::size_t number) const;
  /// s of each block: the slowest rank's.
  std::vector<double> slowest(std::size_t number) const;
};

/// Runs `settings.cases` on `ranks` ranks: processes, or for inproc the threads of one; `launched`: of a launcher that started
/// this process, too, or null; for mpi otherwise of one that is started here, on `fabric` where that is not null. Leaves none of
/// them.
/// Errors: io, unsupported: ranks cannot be started. What fails in a rank is in `failed`.
ProbedGroup probe_group(const ProbeSettings& settings, int ranks, const RunEvents& events, AgentHub* launched, const Fabric* fabric);

}  // namespace ddl
