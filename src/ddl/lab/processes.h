#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "ddl/core/units.h"
#include "ddl/train/control.h"

namespace ddl {

inline constexpr int kNoRank = -1;  ///< the coordinator itself, or the launcher that it started

/// Something that the process of a rank did, or a signal that the coordinator got.
struct ProcessEvent {
  enum class Kind : std::uint8_t {
    message,  ///< on its control socket
    line,     ///< on its standard output, or its standard error
    exited,   ///< all it had said came before
    signal,   ///< SIGINT or SIGTERM for the coordinator; rank is kNoRank
  };
  Kind kind = Kind::line;
  int rank = kNoRank;
  Message message = {};
  std::string line = {};
  bool is_error_line = false;
  int status = 0;  ///< of exited: as waitpid gives it; of signal: its number
};

/// The processes of one run's ranks, wherever they are.
class Processes {
 public:
  virtual ~Processes() = default;
  /// What happened since, waiting at most so long for the first event.
  virtual std::vector<ProcessEvent> poll(Seconds wait) = 0;
  /// To one that is gone it says nothing.
  virtual void send(int rank, MessageType type, std::string_view body) = 0;
  /// Ranks that have not come to their end.
  virtual int running() const = 0;
  /// -1 where it is not known yet.
  virtual pid_t pid(int rank) const = 0;
  /// SIGKILL for all that are left. Their `exited` events still come.
  virtual void kill_all() = 0;
};

}  // namespace ddl
