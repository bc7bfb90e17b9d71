#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ddl/lab/processes.h"

namespace ddl {

/// "exit status 3" or "signal 9 (Killed)".
std::string describe_status(int status);

/// The worker processes of one run. Whatever happens to the coordinator, none outlives it: each is told by the kernel
/// when it dies (PR_SET_PDEATHSIG), and the destructor kills and reaps those that are left.
///
/// While one exists SIGINT and SIGTERM are not delivered but reported as events; children are in process groups of their
/// own, so that Ctrl-C reaches the coordinator alone.
class ProcessGroup final : public Processes {
 public:
  ProcessGroup();
  ~ProcessGroup() override;
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  /// Forks. The child runs `body` with its end of a control socket and ends with the status that it returns.
  /// Errors: io.
  void start(int rank, const std::function<int(Control)>& body);

  /// Forks and executes `command` with `variables` added to the environment ("NAME=value") or taken from it ("NAME"), after
  /// `before` in the child. Errors: io; a program that cannot be executed ends with status 127.
  void start_program(int rank, const std::vector<std::string>& command, const std::vector<std::string>& variables,
                     const std::function<void()>& before = {});

  std::vector<ProcessEvent> poll(Seconds wait) override { return poll(wait, {}); }
  /// The same; returns early, too, when one of `also` can be read.
  std::vector<ProcessEvent> poll(Seconds wait, std::span<const int> also);
  void send(int rank, MessageType type, std::string_view body) override;
  int running() const override;
  pid_t pid(int rank) const override;
  void kill_all() override;

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
