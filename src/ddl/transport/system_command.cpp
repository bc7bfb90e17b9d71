#include "ddl/transport/system_command.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/transport/unique_fd.h"

namespace ddl {
namespace {

/// A file without a name: unlike a pipe it never fills, so that nobody has to read while the command runs.
UniqueFd make_output() {
  UniqueFd fd(::memfd_create("ddlbench output", MFD_CLOEXEC));
  if (!fd.valid()) throw system_error("[command] cannot make a file in memory", errno);
  return fd;
}

std::string content_of(const UniqueFd& fd) {
  std::string text;
  char piece[4096];
  for (ssize_t got = 0; (got = ::pread(fd.get(), piece, sizeof piece, static_cast<off_t>(text.size()))) > 0;)
    text.append(piece, static_cast<std::size_t>(got));
  return text;
}

/// An error is one line, whatever the program said.
std::string one_line(const std::string& text) {
  std::string line(trim(text));
  for (std::size_t at = 0; (at = line.find('\n', at)) != std::string::npos; at += 2) line.replace(at, 1, "; ");
  return line;
}

}  // namespace

std::string run_command(const std::vector<std::string>& command, const std::string& needs) {
  const UniqueFd output = make_output(), complaints = make_output();
  std::vector<char*> arguments;
  for (const auto& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);

  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&files, output.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&files, complaints.get(), STDERR_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t child = -1;
  const int failed = ::posix_spawnp(&child, arguments[0], &files, &attributes, arguments.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);

  if (failed == ENOENT)
    throw Error(Code::unsupported, fmt::format("[command] no program '{}' in PATH; expected {}", command[0], needs));
  if (failed != 0) throw system_error(fmt::format("[command] cannot start '{}'", join(command, " ")), failed);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) throw system_error(fmt::format("[command] lost '{}'", join(command, " ")), errno);
  if (status != 0)
    throw Error(Code::io, fmt::format("[command] '{}' ended with {} {}: {}", join(command, " "),
                                      WIFSIGNALED(status) ? "signal" : "status",
                                      WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
                                      one_line(content_of(complaints))));
  return content_of(output);
}

}  // namespace ddl
