#include "ddl/cli/process_role.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "ddl/cli/app.h"
#include "ddl/cli/exit_codes.h"
#include "ddl/cli/output.h"
#include "ddl/core/text.h"
#include "ddl/lab/agent.h"
#include "ddl/lab/launched_ranks.h"
#include "ddl/lab/mpi_group.h"
#include "ddl/transport/network_namespace.h"

namespace ddl {
namespace {

/// Commands whose ranks a launcher may start. The others mean the same in every process.
constexpr std::array<std::string_view, 4> kWithRanks{"run", "sweep", "resume", "probe"};

/// `agent IMPLEMENTATION`: a rank of the coordinator that started the launcher.
int agent(const std::string& implementation) {
  const auto process = launched_process();
  const char* const meeting = std::getenv(kMeetingVariable);
  if (!process || meeting == nullptr)
    throw Error(Code::invalid_argument, fmt::format("agent: for ddlbench's own use; got no {}, expected a launcher that ddlbench started",
                                                    process ? kMeetingVariable : "launcher"));
  const AgentSeat seat{process->rank, process->ranks, implementation, Meeting::from_text(meeting)};
  ::unsetenv(kMeetingVariable);  // nobody whom this starts needs it
  return run_agent(seat);
}

/// `on-host ADDRESS=NAMESPACE,… ADDRESS COMMAND…`: what ssh is elsewhere. A launcher writes its command for a shell.
int on_host(const std::string& hosts, const std::string& address, const std::vector<std::string>& command) {
  for (const auto& host : split(hosts, ',')) {
    if (!host.starts_with(address + "=")) continue;
    const auto path = "/run/netns/" + host.substr(address.size() + 1);
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) throw system_error("on-host: cannot open " + path, errno);
    enter_namespace(fd);
    const auto line = join(command, " ");
    ::execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
    throw system_error("on-host: cannot execute /bin/sh", errno);
  }
  throw Error(Code::invalid_argument, fmt::format("on-host: no such host; got {}, expected one of {}", address, hosts));
}

int launched(const LaunchedProcess& process, int argc, char** argv) {
  if (process.rank > 0) return run_agent({process.rank, process.ranks, {}, std::nullopt, true});
  LaunchedRanks ranks(process);
  return run_command_line(argc, argv, &ranks.hub());
}

int choose_role(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + std::max(1, argc));
  const std::string first = words.empty() ? "" : words[0];
  if (first == kAgentWord && words.size() == 2) return agent(words[1]);
  if (first == kOnHostWord && words.size() > 3) return on_host(words[1], words[2], {words.begin() + 3, words.end()});
  if (std::find(kWithRanks.begin(), kWithRanks.end(), first) != kWithRanks.end())
    if (const auto process = launched_process()) return launched(*process, argc, argv);
  return run_command_line(argc, argv, nullptr);
}

}  // namespace

int play_role(int argc, char** argv) {
  try {
    return choose_role(argc, argv);
  } catch (const Error& error) {
    print_error(error.what());
    return static_cast<int>(exit_for(error.code()));
  } catch (const std::exception& error) {
    print_error(error.what());
    return static_cast<int>(Exit::failure);
  }
}

}  // namespace ddl
