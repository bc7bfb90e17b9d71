#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ddl/lab/meeting.h"
#include "ddl/lab/processes.h"
#include "ddl/measure/clock.h"

namespace ddl {

/// The coordinator's end of ranks that a launcher started, each watched by an agent (lab/agent.h): who has come, and one job
/// after another for all of them.
class AgentHub {
 public:
  AgentHub(int ranks, Listener::Reach reach);

  int ranks() const { return static_cast<int>(seats_.size()); }
  const Meeting& meeting() const { return listener_.meeting(); }
  /// In a forked child: nobody is to be met here.
  void close_in_child();

  /// All ranks are to run it; sent once all have come. Errors: peer_lost where an earlier job left the group unusable.
  void begin(const Json& job);
  /// What to wait for: one of these can be read when there is something to take().
  std::vector<int> descriptors() const;
  /// Appends what happened since.
  /// Errors: what keeps a worker from joining the others at all, as it says it.
  void take(std::vector<ProcessEvent>& events);

  void send(int rank, MessageType type, std::string_view body);
  /// Those that have not ended the job.
  int running() const;
  pid_t pid(int rank) const { return seats_[static_cast<std::size_t>(rank)].pid; }
  /// Ends all workers now; the group is of no use afterwards.
  void kill_all();

  /// How many hosts ranks came from; 1 where that is not known yet.
  int hosts() const;

  /// Ranks that have not come.
  std::vector<int> missing() const;
  /// There is no further job: workers leave each other, and end.
  void leave();
  /// Whether no agent is connected any more.
  bool empty() const;

 private:
  struct Seat {
    std::optional<Control> control;
    pid_t pid = -1;
    std::string address;      ///< where it came from; empty where not by a network
    bool came = false;
    bool ended = false;       ///< its worker
    bool running = false;
  };
  struct Stranger {
    Control control;
    Nanoseconds since;
  };

  void greet();
  void seat(Control control, const Json& said);
  void start();
  Json places() const;
  void take_from(int rank, std::vector<ProcessEvent>& events);
  void end_rank(int rank, int status, std::vector<ProcessEvent>& events);

  Listener listener_;
  std::vector<Seat> seats_;
  std::vector<Stranger> strangers_;
  std::string own_address_;                                ///< of this host, by which ranks of others came; empty: there are none
  std::optional<Json> waiting_;                            ///< the job, until all have come
  std::vector<std::pair<int, MessageType>> early_;         ///< what was to be sent in the meantime
  std::string broken_;                                     ///< why there can be no further job
};

}  // namespace ddl
