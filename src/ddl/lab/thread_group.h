#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "ddl/lab/process_group.h"

namespace ddl {

/// The ranks of one run as threads of one process, a child of this one: for strategies whose workers share memory and nothing else. Each has a control socket of its own;
/// they have one end: when the process is over, or killed, all have come to it with its status.
class ThreadGroup final : public Processes {
 public:
  using Body = std::function<int(int rank, Control& control)>;
  /// Forks. `body` runs on a thread for each rank; the process's status is the largest that one returned. Errors: io.
  ThreadGroup(int ranks, const Body& body);

  std::vector<ProcessEvent> poll(Seconds wait) override;
  void send(int rank, MessageType type, std::string_view body) override;
  int running() const override { return process_.running() > 0 ? ranks_ : 0; }
  pid_t pid(int) const override { return process_.pid(0); }
  void kill_all() override { process_.kill_all(); }

 private:
  void drain(int rank, std::vector<ProcessEvent>& events);

  int ranks_;
  std::vector<std::unique_ptr<Control>> others_;  ///< of ranks 1, 2, …; null once closed
  ProcessGroup process_;                          ///< rank 0 has its control socket
};

}  // namespace ddl
