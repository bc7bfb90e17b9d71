#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "ddl/lab/agent_hub.h"
#include "ddl/lab/process_group.h"
#include "ddl/transport/mpi/launcher.h"

namespace ddl {

/// Ranks that a launcher started, for one job.
class AgentGroup final : public Processes {
 public:
  /// Of a launcher that started this process, too. They stay for the next job. Errors: those of AgentHub::begin().
  AgentGroup(AgentHub& hub, const Json& job);
  /// Of a launcher that is started here, and is gone with this object; `before`: in its process, before it is executed.
  /// Errors: io.
  AgentGroup(std::unique_ptr<AgentHub> hub, const Json& job, const LauncherCommand& launcher, const std::function<void()>& before);
  ~AgentGroup() override;

  /// Errors: those of AgentHub::take(); io and timeout where ranks do not come, with the launcher's last lines.
  std::vector<ProcessEvent> poll(Seconds wait) override;
  void send(int rank, MessageType type, std::string_view body) override { hub_.send(rank, type, body); }
  int running() const override { return hub_.running(); }
  pid_t pid(int rank) const override { return hub_.pid(rank); }
  void kill_all() override { hub_.kill_all(); }

 private:
  void notice(const ProcessEvent& event);
  void check_arrival() const;
  std::string last_words() const;
  /// Waits so long for the launcher's end; whether it came.
  bool ends_within(Seconds time);

  std::unique_ptr<AgentHub> own_;
  AgentHub& hub_;
  ProcessGroup local_;  ///< the launcher, where it is ours, and signals
  Nanoseconds began_;
  std::deque<std::string> lines_;
  std::optional<int> ended_;  ///< the launcher's status
};

}  // namespace ddl
