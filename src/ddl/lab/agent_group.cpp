#include "ddl/lab/agent_group.h"

#include <signal.h>
#include <sys/prctl.h>

#include "ddl/core/error.h"
#include "ddl/core/text.h"

namespace ddl {
namespace {

/// How long a launcher may take to start all ranks, and libraries to come from a network's disk.
constexpr Seconds kArrival{120};
/// How long it may take to end after all ranks have, until it is asked to, and until it is killed.
constexpr Seconds kEnd{10}, kAskedEnd{5};
constexpr std::size_t kKeptLines = 12;

std::string list_of(const std::vector<int>& ranks) {
  std::vector<std::string> words;
  for (const int rank : ranks) words.push_back(std::to_string(rank));
  return join(words, ", ");
}

}  // namespace

AgentGroup::AgentGroup(AgentHub& hub, const Json& job) : hub_(hub), began_(now()) { hub_.begin(job); }

AgentGroup::AgentGroup(std::unique_ptr<AgentHub> hub, const Json& job, const LauncherCommand& launcher, const std::function<void()>& before)
    : own_(std::move(hub)), hub_(*own_), began_(now()) {
  hub_.begin(job);
  local_.start_program(kNoRank, launcher.command, launcher.variables, [&] {
    // A launcher that is killed leaves its files and its ranks' shared memory; one that is asked to end removes them. Its ranks
    // end with their connections.
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (before) before();
  });
}

AgentGroup::~AgentGroup() {
  // Only an exception leaves ranks at work.
  if (hub_.running() > 0) hub_.kill_all();
  if (!own_) return;
  hub_.leave();
  try {
    if (ends_within(kEnd)) return;
    ::kill(local_.pid(kNoRank), SIGTERM);
    ends_within(kAskedEnd);
  } catch (const std::exception&) {
    // The members' destructors end what is left.
  }
}

bool AgentGroup::ends_within(Seconds time) {
  std::vector<ProcessEvent> ignored;
  for (const auto until = now() + static_cast<Nanoseconds>(time.value * 1e9); !ended_ && now() < until;) {
    for (const auto& event : local_.poll({0.1}, hub_.descriptors())) notice(event);
    try {
      hub_.take(ignored);
    } catch (const Error&) {
      // What a rank says now is too late to matter.
    }
  }
  return ended_.has_value();
}

void AgentGroup::notice(const ProcessEvent& event) {
  if (event.kind == ProcessEvent::Kind::exited) ended_ = event.status;
  if (event.kind != ProcessEvent::Kind::line || event.line.empty()) return;
  lines_.push_back(event.line);
  if (lines_.size() > kKeptLines) lines_.pop_front();
}

std::vector<ProcessEvent> AgentGroup::poll(Seconds wait) {
  std::vector<ProcessEvent> events;
  for (auto& event : local_.poll(wait, hub_.descriptors())) {
    notice(event);
    if (event.kind == ProcessEvent::Kind::signal) events.push_back(std::move(event));
  }
  hub_.take(events);
  if (hub_.running() > 0) check_arrival();
  return events;
}

void AgentGroup::check_arrival() const {
  const auto missing = hub_.missing();
  if (missing.empty()) return;
  if (ended_)
    throw Error(Code::io, fmt::format("[mpi] the launcher ended by {} before rank {} came; its last lines: {}", describe_status(*ended_), list_of(missing), last_words()));
  if (now() - began_ > static_cast<Nanoseconds>(kArrival.value * 1e9))
    throw Error(Code::timeout, fmt::format("[mpi] rank {} did not come within {}; the launcher's last lines: {}", list_of(missing), to_string(kArrival), last_words()));
}

std::string AgentGroup::last_words() const {
  return lines_.empty() ? "none" : join(std::vector<std::string>(lines_.begin(), lines_.end()), " | ");
}

}  // namespace ddl
