#include "ddl/transport/mpi/processes.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "ddl/core/text.h"

namespace ddl {
namespace {

/// Numbers of processes mean the same within it.
std::string place() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id") >> std::ws, boot);
  char space[64] = {};
  if (::readlink("/proc/self/ns/pid", space, sizeof space - 1) < 0) return "?";
  return boot + "/" + space;
}

}  // namespace

std::string RankProcesses::mine() { return place() + " " + std::to_string(::getpid()); }

RankProcesses::RankProcesses(const std::vector<std::string>& said) {
  const auto here = place();
  for (const auto& text : said) {
    Process process;
    const auto words = split(text, ' ');
    const pid_t pid = words.size() == 2 && words[0] == here && here != "?" ? std::atoi(words[1].c_str()) : 0;
    if (pid > 0 && pid != ::getpid()) {
      // By number: glibc 2.36 declares pidfd_open without C linkage.
      process.fd = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
      process.gone = process.fd.get() < 0 && errno == ESRCH;
      if (process.fd.get() >= 0) process.pid = pid;
    }
    processes_.push_back(std::move(process));
  }
}

const RankProcesses::Process* RankProcesses::find(int rank) const {
  return rank < 0 || static_cast<std::size_t>(rank) >= processes_.size() ? nullptr : &processes_[static_cast<std::size_t>(rank)];
}

bool RankProcesses::ended(int rank) const {
  const auto* const process = find(rank);
  if (process == nullptr) return false;
  pollfd polled{process->fd.get(), POLLIN, 0};
  return process->gone || (process->pid != 0 && ::poll(&polled, 1, 0) == 1);
}

RankProcesses::State RankProcesses::state(int rank) const {
  const auto* const process = find(rank);
  if (ended(rank)) return State::ended;
  if (process == nullptr || process->pid == 0) return State::runs;
  std::string line;
  std::getline(std::ifstream("/proc/" + std::to_string(process->pid) + "/stat"), line);
  return state_in(line);
}

RankProcesses::State RankProcesses::state_in(const std::string& line) {
  // "pid (name, which may hold anything) state parent group session terminal its-group flags …", proc(5)
  const auto name = line.rfind(')');
  if (name == std::string::npos || name + 2 >= line.size()) return State::runs;
  const auto fields = split(line.substr(name + 2), ' ');
  if (fields[0] == "Z" || fields[0] == "X") return State::ended;
  // Linux's PF_EXITING. A process that is killed gives its memory back first, which takes a while, and only then ends for those who
  // wait for it.
  constexpr unsigned long kExiting = 4;
  if (fields.size() > 6 && (std::strtoul(fields[6].c_str(), nullptr, 10) & kExiting) != 0) return State::ended;
  return fields[0] == "T" || fields[0] == "t" ? State::stopped : State::runs;
}

}  // namespace ddl
