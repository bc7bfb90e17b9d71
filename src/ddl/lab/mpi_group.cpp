#include "ddl/lab/mpi_group.h"

#include <filesystem>

#include "ddl/core/error.h"
#include "ddl/lab/agent_group.h"
#include "ddl/transport/mpi/implementations.h"

namespace ddl {

std::unique_ptr<Processes> launched_group(AgentHub& hub, const Json& job) { return std::make_unique<AgentGroup>(hub, job); }

std::unique_ptr<Processes> mpi_group(const std::string& transport, int ranks, const Json& job, const std::vector<int>& hosts, const Fabric* fabric) {
  const auto implementation = choose_mpi(choose_transport(transport, {}).options.implementation);
  std::error_code ignored;
  MpiLaunch launch{{std::filesystem::read_symlink("/proc/self/exe", ignored).string(), kAgentWord, implementation.name}, ranks, {kMeetingVariable}};
  if (fabric != nullptr) {
    launch.network = fabric->network();
    launch.shell = launch.program.front() + " " + kOnHostWord + " ";
    for (int host = 0; host < fabric->hosts(); ++host)
      launch.shell += fmt::format("{}{}={}", host == 0 ? "" : ",", fabric->address(host), fabric->namespace_name(host));
    for (const int host : hosts) {
      if (launch.hosts.empty() || launch.hosts.back().address != fabric->address(host)) launch.hosts.push_back({fabric->address(host), 0});
      ++launch.hosts.back().ranks;
    }
  }
  auto launcher = launcher_command(implementation, launch);
  if (const auto why = why_not_loaded(implementation); !why.empty()) throw Error(Code::unsupported, why);
  auto hub = std::make_unique<AgentHub>(ranks, fabric == nullptr ? Listener::Reach::machine : Listener::Reach::file);
  launcher.variables.push_back(fmt::format("{}={}", kMeetingVariable, hub->meeting().text()));
  const auto before = [fabric] {
    if (fabric != nullptr) enter_namespace(fabric->hub().fd());
  };
  return std::make_unique<AgentGroup>(std::move(hub), job, launcher, before);
}

}  // namespace ddl
