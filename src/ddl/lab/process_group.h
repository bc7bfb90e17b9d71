#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ddl/core/units.h"
#include "ddl/train/control.h"

namespace ddl {

/// Something a child process did, or a signal that the coordinator got.
struct ProcessEvent {
  enum class Kind : std::uint8_t {
    message,  ///< on its control socket
    line,     ///< on its standard output, or its standard error
    exited,   ///< all it had said came before
    signal,   ///< SIGINT or SIGTERM for the coordinator; rank is -1
  };
  Kind kind = Kind::line;
  int rank = -1;
  Message message = {};
  std::string line = {};
  bool is_error_line = false;
  int status = 0;  ///< of exited: as waitpid gives it; of signal: its number
};

/// "exit status 3" or "signal 9 (Killed)".
std::string describe_status(int status);

/// The worker processes of one run. Whatever happens to the coordinator, none outlives it: each is told by the kernel
/// when it dies (PR_SET_PDEATHSIG), and the destructor kills and reaps those that are left.
///
/// While one exists SIGINT and SIGTERM are not delivered but reported as events; children are in process groups of their
/// own, so that Ctrl-C reaches the coordinator alone.
class ProcessGroup {
 public:
  ProcessGroup();
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  /// Forks. The child runs `body` with its end of a control socket and ends with the status that it returns.
  /// Errors: io.
  void start(int rank, const std::function<int(Control)>& body);

  /// Forks and executes `command` with `variables` ("NAME=value") added to the environment. Errors: io; a program that
  /// cannot be executed ends with status 127.
  void start_program(int rank, const std::vector<std::string>& command, const std::vector<std::string>& variables);

  /// What happened since, waiting at most so long for the first event.
  std::vector<ProcessEvent> poll(Seconds wait);

  /// To a child that is gone it says nothing.
  void send(int rank, MessageType type, std::string_view body);

  int running() const;
  pid_t pid(int rank) const;
  /// SIGKILL for all that are left. Their `exited` events still come.
  void kill_all();

 private:
  struct Child;
  Child& spawn(int rank, const std::function<int(int control)>& body);
  void drain(Child& child, std::vector<ProcessEvent>& events);
  void read_lines(Child& child, int which, std::vector<ProcessEvent>& events);

  std::vector<std::unique_ptr<Child>> children_;
  int signals_ = -1;
  struct SavedMask;
  std::unique_ptr<SavedMask> saved_;
};

}  // namespace ddl
