#include "ddl/transport/mpi/implementations.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "ddl/core/error.h"
#include "ddl/core/modules.h"
#include "ddl/core/text.h"

// CMake says what it did not find: DDL_MPI_OPENMPI_MISSING, DDL_MPI_MPICH_MISSING (both empty where it did), and the Intel
// MPI that it was given: DDL_IMPI_ROOT.

namespace ddl {
namespace {

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::vector<std::string> intel_homes() {
  std::vector<std::string> all;
  for (const auto& root : {environment("I_MPI_ROOT"), std::string(DDL_IMPI_ROOT)})
    if (!root.empty()) all.push_back(root);
  return all;
}

std::vector<std::string> intel_libraries() {
  std::vector<std::string> all;
  for (const auto& root : intel_homes())
    for (const char* const place : {"/lib/libmpi.so.12", "/lib/release/libmpi.so.12"})
      if (::access((root + place).c_str(), R_OK) == 0) all.push_back(root + place);
  all.emplace_back("libmpi.so.12");
  return all;
}

}  // namespace

std::vector<MpiImplementation> mpi_implementations() {
  std::vector<MpiImplementation> all{
      {"openmpi", "Open MPI", "libddl_mpi_openmpi.so", {"libmpi.so.40"}, "Debian's libopenmpi3 and openmpi-bin", DDL_MPI_OPENMPI_MISSING},
      {"mpich", "MPICH", "libddl_mpi_mpich.so", {"libmpich.so.12"}, "Debian's libmpich12 and mpich", DDL_MPI_MPICH_MISSING},
      {"intel", "Intel MPI", "libddl_mpi_mpich.so", intel_libraries(), "PyPI's impi-rt, whose folder I_MPI_ROOT names", DDL_MPI_MPICH_MISSING,
       intel_homes()}};
  for (auto& each : all)
    if (const auto path = module_file(each.module); each.missing.empty() && ::access(path.c_str(), R_OK) != 0)
      each.missing = fmt::format("{} is not there", path.string());
  return all;
}

std::string describe(const std::vector<MpiImplementation>& implementations) {
  std::vector<std::string> here, not_here;
  for (const auto& each : implementations)
    each.missing.empty() ? here.push_back(each.name) : not_here.push_back(fmt::format("not {}: {}", each.name, each.missing));
  auto text = fmt::format("processes that mpirun or srun started; implementation={}", here.empty() ? "none" : join(here, "|"));
  if (!not_here.empty()) text += fmt::format(" ({})", join(not_here, "; "));
  return text;
}

std::string why_none(const std::vector<MpiImplementation>& implementations) {
  std::vector<std::string> reasons;
  for (const auto& each : implementations) {
    if (each.missing.empty()) return {};
    reasons.push_back(fmt::format("{}: {}", each.name, each.missing));
  }
  return join(reasons, "; ");
}

std::string mpi_of_launcher() {
  const auto has = [](const char* name) { return std::getenv(name) != nullptr; };
  if (has("OMPI_COMM_WORLD_RANK")) return "openmpi";
  if (has("I_MPI_HYDRA_UUID")) return "intel";
  // PMI is the word of MPICH's launcher and of srun --mpi=pmi2, which serve Intel MPI too.
  if (has("PMI_RANK") || has("MPI_LOCALRANKID")) return has("I_MPI_ROOT") ? "intel" : "mpich";
  if (has("PMIX_RANK")) return "openmpi";
  return {};
}

MpiImplementation choose_mpi(const std::string& name) {
  const auto all = mpi_implementations();
  const auto wanted = name.empty() ? mpi_of_launcher() : name;
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& each) { return wanted.empty() ? each.missing.empty() : each.name == wanted; });
  if (found == all.end()) {
    if (wanted.empty()) throw Error(Code::unsupported, fmt::format("[mpi] no implementation is here: {}", why_none(all)));
    std::vector<std::string> names;
    for (const auto& each : all) names.push_back(each.name);
    throw Error(Code::not_found, fmt::format("[mpi] unknown implementation '{}'{}; expected one of: {}", wanted,
                                             did_you_mean(wanted, names), join(names, " ")));
  }
  if (!found->missing.empty())
    throw Error(Code::unsupported, fmt::format("[mpi] unsupported: {} is not in this build: {}", found->name, found->missing));
  return *found;
}

std::string why_not_loaded(const MpiImplementation& implementation) {
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) throw system_error("[mpi] cannot make a pipe", errno);
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      load_mpi(implementation);
    } catch (const Error& error) {
      const std::string_view said = error.what();
      static_cast<void>(!::write(pipe[1], said.data(), said.size()));
    }
    ::_exit(0);
  }
  ::close(pipe[1]);
  std::string said(4096, '\0');
  const auto got = child < 0 ? 0 : ::read(pipe[0], said.data(), said.size());
  ::close(pipe[0]);
  if (child < 0) throw system_error("[mpi] cannot start a process", errno);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  said.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  if (said.empty() && status != 0)
    said = fmt::format("[mpi] {} ends the process that loads it ({} {})", implementation.title, WIFSIGNALED(status) ? "signal" : "exit status",
                       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  return said;
}

const mpi::Module& load_mpi(const MpiImplementation& implementation) {
  std::vector<std::string> said;
  void* library = nullptr;
  for (const auto& file : implementation.libraries) {
    // Global, since the module, and the plug-ins of some MPIs, take its functions from there; there is one MPI to a process.
    library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library != nullptr) break;
    said.emplace_back(::dlerror());
  }
  if (library == nullptr)
    throw Error(Code::unsupported, fmt::format("[mpi] {} cannot be loaded: {}; it comes with {}", implementation.title,
                                               join(said, "; "), implementation.wants));
  const auto path = module_file(implementation.module);
  void* const module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) throw Error(Code::unsupported, fmt::format("[mpi] the module for {} cannot be loaded: {}", implementation.title, ::dlerror()));
  const auto get = reinterpret_cast<mpi::ModuleFunction>(::dlsym(module, mpi::kModuleSymbol));
  const mpi::Module* const calls = get == nullptr ? nullptr : get();
  if (calls == nullptr || calls->version != mpi::kModuleVersion || calls->size != sizeof(mpi::Module))
    throw Error(Code::unsupported, fmt::format("[mpi] {} is of another build: version {}, expected {}", path.string(),
                                               calls == nullptr ? 0 : calls->version, mpi::kModuleVersion));
  return *calls;
}

}  // namespace ddl
