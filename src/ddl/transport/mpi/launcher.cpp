#include "ddl/transport/mpi/launcher.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/transport/cores.h"
#include "ddl/transport/system_command.h"

extern char** environ;

namespace ddl {
namespace {

/// A launcher by one of the names it has. A name that several MPIs use is asked whose it is.
struct Kind {
  const char* implementation;
  std::vector<const char*> own;
  std::vector<const char*> shared;
  const char* mark;  ///< in what the right one says of itself
  const char* wants;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all{{"openmpi", {"mpirun.openmpi"}, {"mpirun"}, "Open MPI", "Debian's openmpi-bin"},
                                     {"mpich", {"mpiexec.mpich"}, {"mpiexec.hydra", "mpiexec"}, "HYDRA build details", "Debian's mpich"},
                                     {"intel", {}, {"mpiexec.hydra"}, "Intel(R) MPI", "PyPI's impi-rt, whose folder I_MPI_ROOT names"}};
  return all;
}

/// Its path; empty where PATH has none.
std::string in_path(const std::string& name) {
  const char* const path = std::getenv("PATH");
  for (const auto& folder : split(path == nullptr ? "/usr/local/bin:/usr/bin:/bin" : path, ':'))
    if (const auto file = folder + "/" + name; !folder.empty() && ::access(file.c_str(), X_OK) == 0) return file;
  return {};
}

bool says(const std::string& program, const std::string& mark) {
  try {
    return run_command({program, "--version"}, "").find(mark) != std::string::npos;
  } catch (const Error&) {
    return false;
  }
}

std::string find_launcher(const MpiImplementation& implementation) {
  const auto kind = std::find_if(kinds().begin(), kinds().end(), [&](const Kind& each) { return implementation.name == each.implementation; });
  invariant(kind != kinds().end(), "an MPI whose launcher is known");
  std::vector<std::string> tried;
  for (const auto& home : implementation.homes)
    if (tried.push_back(home + "/bin/mpiexec.hydra"); ::access(tried.back().c_str(), X_OK) == 0) return tried.back();
  for (const char* const name : kind->own)
    if (const auto path = in_path(name); tried.emplace_back(name), !path.empty()) return path;
  for (const char* const name : kind->shared) {
    const auto path = in_path(name);
    if (!path.empty() && says(path, kind->mark)) return path;
    tried.push_back(path.empty() ? std::string(name) : fmt::format("{} (here: {}, which is another MPI's)", name, path));
  }
  throw Error(Code::unsupported, fmt::format("[mpi] unsupported: the launcher of {} is missing; got none of {}, expected {}", implementation.title,
                                             join(tried, ", "), kind->wants));
}

/// A launcher that finds another's words, or a batch system's, in its environment takes itself for a part of that.
void forget_other_launchers(std::vector<std::string>& variables) {
  constexpr std::array kPrefixes{"OMPI_COMM_", "OMPI_MCA_ess", "OMPI_MCA_orte", "OMPI_UNIVERSE", "PMIX_", "PMI_", "HYDI_", "MPI_LOCAL", "SLURM_",
                                 "PBS_", "LSB_", "PE_HOSTFILE"};
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view variable = *each;
    if (std::any_of(kPrefixes.begin(), kPrefixes.end(), [&](const char* prefix) { return variable.starts_with(prefix); }))
      variables.emplace_back(variable.substr(0, variable.find('=')));
  }
}

void unless_set(std::vector<std::string>& variables, const std::string& name, const std::string& value) {
  if (std::getenv(name.c_str()) == nullptr) variables.push_back(name + "=" + value);
}

LauncherCommand openmpi(const std::string& launcher, const MpiLaunch& launch, bool crowded) {
  LauncherCommand made{{launcher, "--oversubscribe", "--bind-to", "none", "--map-by", "slot", "-n", std::to_string(launch.ranks)}, {}};
  auto& words = made.command;
  const auto set = [&](const std::string& name, const std::string& value) { words.insert(words.end(), {"--mca", name, value}); };
  if (crowded) set("mpi_yield_when_idle", "1");
  // Ranks end themselves: after a failure there is nobody whom it should give a second before it kills.
  set("odls_base_sigkill_timeout", "0");
  for (const auto& name : launch.pass) words.insert(words.end(), {"-x", name});
  if (!launch.hosts.empty()) {
    std::vector<std::string> hosts;
    for (const auto& host : launch.hosts) hosts.push_back(fmt::format("{}:{}", host.address, host.ranks));
    words.insert(words.end(), {"--host", join(hosts, ",")});
    set("plm_rsh_agent", launch.shell);
    // Every host's daemon speaks to mpirun itself, not through another's.
    set("routed", "direct");
    set("btl", "tcp,self");
    set("pml", "ob1");
    set("btl_tcp_if_include", launch.network);
    set("oob_tcp_if_include", launch.network);
  }
  if (::geteuid() == 0) made.variables = {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"};
  return made;
}

LauncherCommand hydra(const std::string& launcher, const MpiImplementation& implementation, const MpiLaunch& launch, bool crowded) {
  if (!launch.hosts.empty())
    throw Error(Code::unsupported, fmt::format("[mpi] unsupported: ranks on a test network are started by Open MPI alone; got {}, expected "
                                               "mpi[implementation=openmpi]", implementation.name));
  LauncherCommand made{{launcher, "-launcher", "fork", "-n", std::to_string(launch.ranks)}, {}};
  if (implementation.name != "intel") return made;
  const auto home = launcher.substr(0, launcher.rfind("/bin/"));
  const char* const libraries = std::getenv("LD_LIBRARY_PATH");
  made.command[1] = "-bootstrap";
  made.variables = {"I_MPI_ROOT=" + home, fmt::format("LD_LIBRARY_PATH={}/lib{}", home, libraries == nullptr ? std::string() : std::string(":") + libraries)};
  unless_set(made.variables, "FI_PROVIDER_PATH", home + "/lib");
  unless_set(made.variables, "I_MPI_FABRICS", "shm");
  if (crowded) {
    unless_set(made.variables, "I_MPI_WAIT_MODE", "1");
    unless_set(made.variables, "I_MPI_THREAD_YIELD", "3");
  }
  return made;
}

int number(const char* name, int otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : std::atoi(value);
}

}  // namespace

int launched_ranks() {
  // Of launchers within launchers, the inner one's word: mpirun sets the first two, srun alone the last.
  for (const char* const name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"})
    if (std::getenv(name) != nullptr) return number(name, 0);
  return 0;
}

std::optional<LaunchedProcess> launched_process() {
  const int ranks = launched_ranks();
  if (ranks < 2) return std::nullopt;
  for (const char* const name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"})
    if (const int rank = number(name, -1); rank >= 0) return LaunchedProcess{rank, ranks};
  // A step's own task, and not a shell that was started inside one.
  if (const int task = number("SLURM_PROCID", -1); task >= 0) {
    if (task == 0)
      throw Error(Code::unsupported, fmt::format("unsupported: srun started {} processes that do not know of each other; got no --mpi=, expected "
                                                 "srun --mpi=pmix (Open MPI) or --mpi=pmi2 (MPICH, Intel MPI)", ranks));
    return LaunchedProcess{task, ranks};
  }
  return std::nullopt;
}

LauncherCommand launcher_command(const MpiImplementation& implementation, const MpiLaunch& launch) {
  const auto launcher = find_launcher(implementation);
  const bool crowded = launch.hosts.empty() ? launch.ranks > available_cores() : true;
  auto made = implementation.name == "openmpi" ? openmpi(launcher, launch, crowded) : hydra(launcher, implementation, launch, crowded);
  forget_other_launchers(made.variables);
  made.command.insert(made.command.end(), launch.program.begin(), launch.program.end());
  return made;
}

}  // namespace ddl
