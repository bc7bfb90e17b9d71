#include "ddl/lab/process_group.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <utility>

#include "ddl/core/error.h"
#include "ddl/lab/signals.h"

namespace ddl {
namespace {

void close_fd(int& fd) {
  if (fd >= 0) ::close(std::exchange(fd, -1));
}

struct Pipe {
  int read = -1, write = -1;
  Pipe() {
    int fds[2];
    if (::pipe2(fds, O_CLOEXEC) != 0) throw system_error("[process] cannot make a pipe", errno);
    read = fds[0];
    write = fds[1];
    ::fcntl(read, F_SETFL, O_NONBLOCK);
  }
  ~Pipe() {
    close_fd(read);
    close_fd(write);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
};

}  // namespace

struct ProcessGroup::Child {
  int rank = 0;
  pid_t pid = -1;
  int pidfd = -1;
  std::optional<Control> control;
  std::array<int, 2> outputs{-1, -1};  ///< standard output, standard error
  std::array<std::string, 2> partial;
  bool exited = false;

  ~Child() {
    close_fd(pidfd);
    for (int& fd : outputs) close_fd(fd);
  }
};

struct ProcessGroup::SavedMask {
  sigset_t mask;
};

std::string describe_status(int status) {
  if (WIFSIGNALED(status)) return fmt::format("signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  return fmt::format("exit status {}", WEXITSTATUS(status));
}

ProcessGroup::ProcessGroup() : saved_(std::make_unique<SavedMask>()) {
  const sigset_t mask = ending_signals();
  ::pthread_sigmask(SIG_BLOCK, &mask, &saved_->mask);
  signals_ = ::signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
  // One that came while nobody listened is an event of ours now.
  if (const int early = SignalsHeld::take(); early != 0) ::raise(early);
}

ProcessGroup::~ProcessGroup() {
  kill_all();
  for (auto& child : children_)
    if (!child->exited) {
      int status = 0;
      while (::waitpid(child->pid, &status, 0) < 0 && errno == EINTR) {
      }
    }
  close_fd(signals_);
  ::pthread_sigmask(SIG_SETMASK, &saved_->mask, nullptr);
}

ProcessGroup::Child& ProcessGroup::spawn(int rank, const std::function<int(int)>& body) {
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
    throw system_error("[process] cannot make a socket pair", errno);
  Control ours(sockets[0]);
  int theirs = sockets[1];
  Pipe output, error;
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) {
    close_fd(theirs);
    throw system_error(fmt::format("[process] cannot start rank {}", rank), errno);
  }
  if (pid == 0) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);  // the coordinator died before the kernel was told
    ::signal(SIGINT, SIG_IGN);
    ::signal(SIGTERM, SIG_DFL);
    ::signal(SIGHUP, SIG_IGN);
    sigset_t none;
    ::sigemptyset(&none);
    ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
    // Not the coordinator's terminal: what workers print is kept, with their rank, for the record.
    const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null >= 0) ::dup2(null, STDIN_FILENO);
    ::dup2(output.write, STDOUT_FILENO);
    ::dup2(error.write, STDERR_FILENO);
    // The coordinator's ends, its own and its siblings': held here, they would never look closed.
    ::close(ours.fd());
    for (auto& sibling : children_) sibling->control.reset();
    int status = 1;
    try {
      status = body(theirs);
    } catch (const std::exception& failed) {  // what lies above is the coordinator's
      std::fprintf(stderr, "%s\n", failed.what());
    }
    std::fflush(nullptr);
    ::_exit(status);
  }
  close_fd(theirs);
  auto child = std::make_unique<Child>();
  child->rank = rank;
  child->pid = pid;
  // By number: glibc 2.36 declares pidfd_open without C linkage.
  child->pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  child->control.emplace(std::move(ours));
  child->outputs = {std::exchange(output.read, -1), std::exchange(error.read, -1)};
  children_.push_back(std::move(child));
  if (children_.back()->pidfd < 0) throw system_error("[process] cannot watch a worker", errno);
  return *children_.back();
}

void ProcessGroup::start(int rank, const std::function<int(Control)>& body) {
  spawn(rank, [&](int control) { return body(Control(control)); });
}

void ProcessGroup::start_program(int rank, const std::vector<std::string>& command, const std::vector<std::string>& variables,
                                 const std::function<void()>& before) {
  auto& child = spawn(rank, [&](int) {
    if (before) before();
    for (const auto& variable : variables) {
      const auto equals = variable.find('=');
      if (equals == std::string::npos)
        ::unsetenv(variable.c_str());
      else
        ::setenv(variable.substr(0, equals).c_str(), variable.substr(equals + 1).c_str(), 1);
    }
    std::vector<char*> arguments;
    for (const auto& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    ::execvp(arguments[0], arguments.data());
    std::fprintf(stderr, "cannot execute %s: %s\n", arguments[0], std::strerror(errno));
    return 127;
  });
  child.control.reset();
}

void ProcessGroup::read_lines(Child& child, int which, std::vector<ProcessEvent>& events) {
  int& fd = child.outputs[static_cast<std::size_t>(which)];
  auto& partial = child.partial[static_cast<std::size_t>(which)];
  const auto emit = [&](std::string line) {
    ProcessEvent event;
    event.rank = child.rank;
    event.line = std::move(line);
    event.is_error_line = which == 1;
    events.push_back(std::move(event));
  };
  char block[65536];
  while (fd >= 0) {
    const auto got = ::read(fd, block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return;
    if (got == 0) {
      close_fd(fd);
      if (!partial.empty()) emit(std::exchange(partial, {}));
      return;
    }
    partial.append(block, static_cast<std::size_t>(got));
    for (auto end = partial.find('\n'); end != std::string::npos; end = partial.find('\n')) {
      emit(partial.substr(0, end));
      partial.erase(0, end + 1);
    }
  }
}

void ProcessGroup::drain(Child& child, std::vector<ProcessEvent>& events) {
  try {
    while (child.control) {
      auto message = child.control->receive({0});
      if (!message) break;
      ProcessEvent event;
      event.kind = ProcessEvent::Kind::message;
      event.rank = child.rank;
      event.message = std::move(*message);
      events.push_back(std::move(event));
    }
  } catch (const Error&) {
    child.control.reset();  // closed: its exit comes by the pidfd
  }
  read_lines(child, 0, events);
  read_lines(child, 1, events);
}

std::vector<ProcessEvent> ProcessGroup::poll(Seconds wait, std::span<const int> also) {
  std::vector<pollfd> polled{{signals_, POLLIN, 0}};
  for (const int fd : also) polled.push_back({fd, POLLIN, 0});
  for (const auto& child : children_) {
    if (child->exited) continue;
    polled.push_back({child->pidfd, POLLIN, 0});
    if (child->control) polled.push_back({child->control->fd(), POLLIN, 0});
    for (const int fd : child->outputs)
      if (fd >= 0) polled.push_back({fd, POLLIN, 0});
  }
  std::vector<ProcessEvent> events;
  if (::poll(polled.data(), polled.size(), static_cast<int>(std::ceil(wait.value * 1e3))) <= 0) return events;

  signalfd_siginfo info{};
  while (::read(signals_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    ProcessEvent event;
    event.kind = ProcessEvent::Kind::signal;
    event.status = static_cast<int>(info.ssi_signo);
    events.push_back(event);
  }
  for (auto& child : children_) {
    if (child->exited) continue;
    int status = 0;
    // First whether it is gone, then what it said: so that nothing said before its end is missed.
    const bool gone = ::waitpid(child->pid, &status, WNOHANG) == child->pid;
    drain(*child, events);
    if (!gone) continue;
    child->exited = true;
    ProcessEvent event;
    event.kind = ProcessEvent::Kind::exited;
    event.rank = child->rank;
    event.status = status;
    events.push_back(event);
  }
  return events;
}

void ProcessGroup::send(int rank, MessageType type, std::string_view body) {
  for (auto& child : children_)
    if (child->rank == rank && child->control) {
      try {
        child->control->send(type, body);
      } catch (const Error&) {
        child->control.reset();
      }
    }
}

int ProcessGroup::running() const {
  int count = 0;
  for (const auto& child : children_) count += child->exited ? 0 : 1;
  return count;
}

pid_t ProcessGroup::pid(int rank) const {
  for (const auto& child : children_)
    if (child->rank == rank) return child->pid;
  return -1;
}

void ProcessGroup::kill_all() {
  for (auto& child : children_) {
    if (child->exited) continue;
    ::kill(-child->pid, SIGKILL);
    ::kill(child->pid, SIGKILL);  // where it was killed before it made its own process group
  }
}

}  // namespace ddl
