#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "ddl/transport/unique_fd.h"

namespace ddl {

/// Whether the processes of ranks still run, as far as this one can see: those in its own process namespace. MPI itself says
/// nothing of a rank that was killed.
/// Threads: any, but for the making.
class RankProcesses {
 public:
  enum class State { runs, stopped, ended };

  /// What a rank tells the others about its process.
  static std::string mine();

  RankProcesses() = default;
  /// Of what the ranks said, by rank; who says something else than mine() is taken to run.
  explicit RankProcesses(const std::vector<std::string>& said);

  /// `runs` for whom this process cannot see; `ended` from when it began to end. Reads a file, some microseconds.
  State state(int rank) const;
  /// Whether it has ended to the last: a system call.
  bool ended(int rank) const;
  /// Of a line of /proc/PID/stat.
  static State state_in(const std::string& line);

 private:
  struct Process {
    pid_t pid = 0;  // 0: out of sight
    bool gone = false;
    UniqueFd fd;
  };
  /// Null where nobody has said anything of such a rank.
  const Process* find(int rank) const;

  std::vector<Process> processes_;
};

}  // namespace ddl
