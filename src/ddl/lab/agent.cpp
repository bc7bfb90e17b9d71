#include "ddl/lab/agent.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "ddl/core/error.h"
#include "ddl/lab/process_group.h"
#include "ddl/lab/rank_job.h"
#include "ddl/transport/mpi/world.h"

namespace ddl {
namespace {

constexpr Seconds kMeeting{60};
/// Of the one child that an agent has, in its own group.
constexpr int kWorker = 0;

void join(const AgentSeat& seat, Control& agent) {
  const auto& world = MpiWorld::join(seat.implementation);
  if (world.rank() != seat.rank || world.size() != seat.ranks)
    throw Error(Code::io, fmt::format("[mpi] {} and the launcher count differently; got rank {} of {}, expected rank {} of {}", world.implementation(),
                                      world.rank(), world.size(), seat.rank, seat.ranks));
  if (!seat.announced) return;
  const auto texts = mpi_rendezvous()->exchange(seat.meeting ? seat.meeting->text() : std::string(), kMeeting);
  if (!seat.meeting) agent.send(MessageType::hello, texts.front());
}

/// The worker's whole life: jobs, one after the other, until one fails or there is none left.
int run_jobs(Control& agent, const AgentSeat& seat) {
  // Launchers end what they started by it; when that is, the coordinator decides, which gets it too.
  std::signal(SIGTERM, SIG_IGN);
  try {
    join(seat, agent);
  } catch (const Error& error) {
    agent.send(MessageType::refused, Json{{"code", name(error.code())}, {"message", error.what()}}.dump());
    return 1;
  }
  while (true) {
    const auto message = agent.receive({3600});
    if (!message) continue;
    if (message->type == MessageType::leave) break;
    if (message->type != MessageType::job) continue;  // a word about the last one, which came too late
    const int status = run_rank_job(message->body, seat.rank, seat.ranks, agent);
    if (status != 0) return status;  // its peers may still wait for it in MPI, which is not to be used again
    agent.send(MessageType::finished, "0");
  }
  MpiWorld::leave_now();
  return 0;
}

class Agent {
 public:
  explicit Agent(const AgentSeat& seat) : seat_(seat) {
    group_.start(kWorker, [&](Control control) { return run_jobs(control, seat_); });
    if (seat.meeting) meet(*seat.meeting);
  }

  int run() {
    while (!(ended_ && (told_ || !coordinator_))) {
      std::vector<int> also;
      if (coordinator_) also.push_back(coordinator_->fd());
      for (const auto& event : group_.poll({1}, also)) take(event);
      listen();
    }
    return ended_well_ ? 0 : 1;
  }

 private:
  void meet(const Meeting& meeting) {
    coordinator_.emplace(dial(meeting, {{"rank", seat_.rank}, {"pid", group_.pid(kWorker)}}, kMeeting));
  }

  void take(const ProcessEvent& event) {
    switch (event.kind) {
      case ProcessEvent::Kind::signal: break;  // the coordinator's to answer
      case ProcessEvent::Kind::line: tell(MessageType::line, Json{{"text", event.line}, {"error", event.is_error_line}}.dump(-1, ' ', false, Json::error_handler_t::replace)); break;
      case ProcessEvent::Kind::message:
        if (event.message.type == MessageType::hello)
          meet(Meeting::from_text(event.message.body));
        else
          tell(event.message.type, event.message.body);
        break;
      case ProcessEvent::Kind::exited:
        ended_ = true;
        ended_well_ = event.status == 0;
        tell(MessageType::exited, std::to_string(event.status));
        break;
    }
  }

  void tell(MessageType type, std::string_view body) {
    if (!coordinator_) return;
    try {
      coordinator_->send(type, body);
    } catch (const Error&) {
      lose();
    }
  }

  void listen() {
    try {
      while (coordinator_) {
        const auto message = coordinator_->receive({0});
        if (!message) return;
        // After its worker's end an agent stays: its own end would make the launcher end everyone, before the record is written.
        if (message->type == MessageType::leave) told_ = true;
        if (message->type == MessageType::kill)
          group_.kill_all();
        else
          group_.send(kWorker, message->type, message->body);
      }
    } catch (const Error&) {
      lose();
    }
  }

  /// Without a coordinator there is nothing to work for.
  void lose() {
    coordinator_.reset();
    group_.kill_all();
  }

  const AgentSeat& seat_;
  ProcessGroup group_;
  std::optional<Control> coordinator_;
  bool ended_ = false;  ///< the worker
  bool ended_well_ = false;
  bool told_ = false;   ///< that there is no further job
};

}  // namespace

int run_agent(const AgentSeat& seat) { return Agent(seat).run(); }

}  // namespace ddl
