#include "ddl/subject/python.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "ddl/core/error.h"

namespace ddl {
namespace {

namespace fs = std::filesystem;

/// Whether <folder>/bin/python has <folder>/lib/python3.*/site-packages/torch.
bool has_torch_file(const std::string& executable) {
  std::error_code error;
  if (::access(executable.c_str(), X_OK) != 0) return false;
  for (const auto& entry : fs::directory_iterator(fs::path(executable).parent_path().parent_path() / "lib", error))
    if (entry.path().filename().string().rfind("python3", 0) == 0 &&
        fs::exists(entry.path() / "site-packages/torch/__init__.py", error))
      return true;
  return false;
}

bool says_it_has_torch(const std::string& executable) {
  const std::vector<std::string> words{
      executable, "-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"};
  std::vector<char*> argv;
  for (const auto& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  for (const int fd : {0, 1, 2}) ::posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
  pid_t pid = 0;
  const int failed = ::posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return false;
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool has_torch(const std::string& executable) { return has_torch_file(executable) || says_it_has_torch(executable); }

}  // namespace

PythonFound find_python() {
  const char* chosen = std::getenv("DDLBENCH_PYTHON");
  if (chosen != nullptr && *chosen != '\0') {
    if (has_torch(chosen)) return {chosen, {}};
    return {{}, fmt::format("DDLBENCH_PYTHON={} is no Python that has torch", chosen)};
  }
  const std::string built_with = DDL_PYTHON;
  for (const auto& candidate : {built_with, std::string("python3")})
    if (!candidate.empty() && has_torch(candidate)) return {candidate, {}};
  return {{}, fmt::format("no Python that has torch; looked at {} and python3; set DDLBENCH_PYTHON", built_with)};
}

std::string find_script(const std::string& name) {
  std::error_code error;
  const auto binary = fs::read_symlink("/proc/self/exe", error);
  for (const auto& place :
       {binary.parent_path().parent_path() / "share/ddlbench" / name, fs::path(DDL_SUBJECT_FOLDER) / name})
    if (fs::exists(place, error)) return place.string();
  return {};
}

}  // namespace ddl
