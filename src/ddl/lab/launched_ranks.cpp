#include "ddl/lab/launched_ranks.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "ddl/core/error.h"
#include "ddl/lab/agent.h"
#include "ddl/measure/clock.h"

namespace ddl {
namespace {

constexpr Nanoseconds kArrival = 60'000'000'000, kEnd = 10'000'000'000;

int agent_of_rank_0(AgentHub& hub, const LaunchedProcess& process) {
  const auto meeting = hub.meeting();
  hub.close_in_child();
  try {
    return run_agent({process.rank, process.ranks, {}, meeting, true});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ddlbench: error: %s\n", error.what());
    return 1;
  }
}

}  // namespace

LaunchedRanks::LaunchedRanks(const LaunchedProcess& process) : hub_(process.ranks, Listener::Reach::network) {
  const pid_t parent = ::getpid();
  agent_ = ::fork();
  if (agent_ < 0) throw system_error("[launcher] cannot start rank 0", errno);
  if (agent_ > 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  const int status = agent_of_rank_0(hub_, process);
  std::fflush(nullptr);
  ::_exit(status);
}

LaunchedRanks::~LaunchedRanks() {
  try {
    wait_for_all();
  } catch (const std::exception&) {
    // Why a rank could not join was said, if anybody asked for something.
  }
  // Whatever is still there ends with its connection.
  hub_.close_in_child();
  while (!agent_is_gone()) ::usleep(10'000);
}

bool LaunchedRanks::agent_is_gone() {
  if (agent_ > 0 && ::waitpid(agent_, nullptr, WNOHANG) != 0) agent_ = -1;
  return agent_ < 0;
}

void LaunchedRanks::wait_for_all() {
  std::vector<ProcessEvent> ignored;
  const auto look = [&] {
    hub_.take(ignored);
    ::usleep(10'000);
  };
  // Those still on their way would find nobody.
  for (const auto until = now() + kArrival; !hub_.missing().empty() && now() < until && !agent_is_gone();) look();
  hub_.leave();
  for (const auto until = now() + kEnd; !hub_.empty() && now() < until;) look();
}

}  // namespace ddl
