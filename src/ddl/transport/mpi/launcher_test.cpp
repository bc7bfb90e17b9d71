#include "ddl/transport/mpi/launcher.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/core/text.h"

namespace ddl {
namespace {

/// Variables of the environment, NAME=VALUE, until the end of the test; all that launchers set are gone meanwhile.
class Environment {
 public:
  explicit Environment(const std::vector<std::string>& variables) {
    for (const char* const name : {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_SIZE", "PMI_RANK", "PMIX_RANK", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"})
      set(name, nullptr);
    for (const auto& variable : variables) set(variable.substr(0, variable.find('=')), variable.c_str() + variable.find('=') + 1);
  }
  ~Environment() {
    for (auto each = before_.rbegin(); each != before_.rend(); ++each)
      each->second ? ::setenv(each->first.c_str(), each->second->c_str(), 1) : ::unsetenv(each->first.c_str());
  }

 private:
  void set(const std::string& name, const char* value) {
    const char* const old = std::getenv(name.c_str());
    before_.emplace_back(name, old == nullptr ? std::nullopt : std::optional<std::string>(old));
    value == nullptr ? ::unsetenv(name.c_str()) : ::setenv(name.c_str(), value, 1);
  }
  std::vector<std::pair<std::string, std::optional<std::string>>> before_;
};

std::string launched(const std::vector<std::string>& variables) {
  const Environment environment(variables);
  try {
    const auto process = launched_process();
    return process ? fmt::format("{} of {}", process->rank, process->ranks) : "not";
  } catch (const Error& error) {
    return std::string(name(error.code()));
  }
}

TEST(MpiLauncher, KnowsWhetherOneStartedThisProcess) {
  EXPECT_EQ(launched({}), "not");
  EXPECT_EQ(launched({"OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_RANK=3", "PMIX_RANK=3"}), "3 of 4");
  EXPECT_EQ(launched({"PMI_SIZE=2", "PMI_RANK=0"}), "0 of 2");
  EXPECT_EQ(launched({"SLURM_STEP_NUM_TASKS=2", "SLURM_PROCID=1", "PMIX_RANK=1"}), "1 of 2");
  // A shell of srun --pty, and the batch script itself.
  EXPECT_EQ(launched({"SLURM_STEP_NUM_TASKS=1", "SLURM_PROCID=0", "PMIX_RANK=0"}), "not");
  EXPECT_EQ(launched({"SLURM_PROCID=0"}), "not");
  // srun --mpi=none: said by one.
  EXPECT_EQ(launched({"SLURM_STEP_NUM_TASKS=2", "SLURM_PROCID=0"}), "unsupported");
  EXPECT_EQ(launched({"SLURM_STEP_NUM_TASKS=2", "SLURM_PROCID=1"}), "1 of 2");
}

/// A folder with programs that say what they are, which is all of PATH.
class Programs {
 public:
  explicit Programs(const std::vector<std::pair<std::string, std::string>>& programs) {
    auto pattern = (std::filesystem::temp_directory_path() / "ddlbench-launcher-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    for (const auto& [name, says] : programs) {
      std::ofstream(folder_ / name) << "#!/bin/sh\necho '" << says << "'\n";
      std::filesystem::permissions(folder_ / name, std::filesystem::perms::owner_all);
    }
    environment_.emplace(std::vector<std::string>{"PATH=" + folder_.string(), "SLURM_JOB_ID=7"});
  }
  ~Programs() { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

 private:
  std::filesystem::path folder_;
  std::optional<Environment> environment_;
};

const MpiImplementation kOpenMpi{"openmpi", "Open MPI", "", {}, "", "", {}}, kMpich{"mpich", "MPICH", "", {}, "", "", {}};

TEST(MpiLauncher, TakesTheNameThatOneMpiAloneHas) {
  const Programs programs({{"mpirun.openmpi", ""}, {"mpirun", "mpirun (Open MPI) 4.1.4"}, {"mpiexec.mpich", ""}});
  const auto made = launcher_command(kOpenMpi, {{"/bin/ddlbench", "agent"}, 64, {"SECRET"}});
  EXPECT_EQ(made.command.front(), programs.path("mpirun.openmpi"));
  const auto line = join(made.command, " ");
  EXPECT_NE(line.find("-n 64 --mca mpi_yield_when_idle 1 --mca odls_base_sigkill_timeout 0 -x SECRET /bin/ddlbench agent"), std::string::npos) << line;
  EXPECT_EQ(launcher_command(kMpich, {{"a"}, 2}).command.front(), programs.path("mpiexec.mpich"));
  // What a batch system says would make it start ranks elsewhere.
  EXPECT_NE(std::find(made.variables.begin(), made.variables.end(), "SLURM_JOB_ID"), made.variables.end());
}

TEST(MpiLauncher, AsksANameThatSeveralHaveWhoseItIs) {
  const Programs programs({{"mpirun", "mpirun (Open MPI) 4.1.4"}, {"mpiexec.hydra", "Intel(R) MPI Library for Linux"}});
  EXPECT_EQ(launcher_command(kOpenMpi, {{"a"}, 2}).command.front(), programs.path("mpirun"));
  try {
    launcher_command(kMpich, {{"a"}, 2});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::unsupported);
    EXPECT_NE(std::string(error.what()).find("which is another MPI's"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("Debian's mpich"), std::string::npos) << error.what();
  }
}

TEST(MpiLauncher, ReachesHostsByOpenMpiAlone) {
  const Programs programs({{"mpirun.openmpi", ""}, {"mpiexec.mpich", ""}});
  MpiLaunch launch{{"a"}, 3};
  launch.hosts = {{"10.77.0.1", 2}, {"10.77.0.2", 1}};
  launch.network = "10.77.0.0/24";
  launch.shell = "ddlbench on-host …";
  const auto line = join(launcher_command(kOpenMpi, launch).command, " ");
  EXPECT_NE(line.find("--host 10.77.0.1:2,10.77.0.2:1 "), std::string::npos) << line;
  EXPECT_NE(line.find("btl_tcp_if_include 10.77.0.0/24"), std::string::npos) << line;
  EXPECT_THROW(launcher_command(kMpich, launch), Error);
}

}  // namespace
}  // namespace ddl
