#include "ddl/transport/network_namespace.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>

#include "ddl/core/error.h"
#include "ddl/transport/system_command.h"

namespace ddl {
namespace {

/// Where `ip netns` keeps names.
constexpr const char* kNames = "/run/netns";
constexpr std::string_view kPrefix = "ddlbench-";

/// Field 22 of /proc/PID/stat: clock ticks from boot to the process's start. Empty where there is no such process, or
/// only its remains.
std::optional<std::uint64_t> started(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  if (!std::getline(file, text)) return std::nullopt;
  // The second field is the program's name in brackets, with anything in it.
  std::istringstream rest(text.substr(text.rfind(')') + 1));
  std::string field;
  for (int number = 3; rest >> field; ++number) {
    if (number == 3 && (field == "Z" || field == "X")) return std::nullopt;
    if (number == 22) return std::stoull(field);
  }
  return std::nullopt;
}

struct Maker {
  pid_t pid = 0;
  std::uint64_t started = 0;
};

std::string to_prefix(const Maker& maker) { return fmt::format("{}{}-{}-", kPrefix, maker.pid, maker.started); }

/// Who made the namespace of this name; empty where it is none of ours.
std::optional<Maker> maker_of(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  Maker maker;
  const char* const end = name.data() + name.size();
  const auto pid = std::from_chars(name.data() + kPrefix.size(), end, maker.pid);
  if (pid.ec != std::errc{} || pid.ptr == end || *pid.ptr != '-') return std::nullopt;
  const auto start = std::from_chars(pid.ptr + 1, end, maker.started);
  if (start.ec != std::errc{} || start.ptr == end || *start.ptr != '-') return std::nullopt;
  return maker;
}

std::string path_of(const std::string& name) { return fmt::format("{}/{}", kNames, name); }

void remove_name(const std::string& name) { run_iproute2({"ip", "netns", "del", name}); }

}  // namespace

std::string run_iproute2(const std::vector<std::string>& command) {
  // `ip -n` also makes a mount namespace, to show the space's own /sys, which fails where / is no mount point (chroot, some
  // containers). The network is all that is wanted.
  if (command.size() > 2 && command[1] == "-n") {
    std::vector<std::string> inside{"nsenter", "--net=" + path_of(command[2]), command[0]};
    inside.insert(inside.end(), command.begin() + 3, command.end());
    return run_command(inside, "it from Debian's package util-linux");
  }
  return run_command(command, "it from Debian's package iproute2");
}

NetworkNamespace::NetworkNamespace(std::string_view suffix)
    : name_(to_prefix({::getpid(), started(::getpid()).value_or(0)}).append(suffix)), maker_(::getpid()) {
  run_iproute2({"ip", "netns", "add", name_});
  fd_.reset(::open(path_of(name_).c_str(), O_RDONLY | O_CLOEXEC));
  if (fd_.valid()) return;
  const int number = errno;
  remove_name(name_);
  throw system_error(fmt::format("[namespace] cannot open {}", path_of(name_)), number);
}

NetworkNamespace::NetworkNamespace(NetworkNamespace&& other) noexcept
    : name_(std::exchange(other.name_, {})), maker_(other.maker_), fd_(std::move(other.fd_)) {}

NetworkNamespace::~NetworkNamespace() {
  if (name_.empty() || maker_ != ::getpid()) return;
  fd_.reset();
  try {
    remove_name(name_);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ddlbench: network namespace %s is left behind: %s\n", name_.c_str(), error.what());
  }
}

void enter_namespace(int fd) {
  if (::setns(fd, CLONE_NEWNET) != 0) throw system_error("[namespace] cannot enter", errno);
}

void set_in_namespace(int fd, const std::string& setting, const std::string& value) {
  std::optional<Error> failed;
  std::thread([&] {
    try {
      enter_namespace(fd);
      const UniqueFd file(::open(setting.c_str(), O_WRONLY | O_CLOEXEC));
      if (!file.valid() || ::write(file.get(), value.data(), value.size()) != static_cast<ssize_t>(value.size()))
        throw system_error(fmt::format("[namespace] cannot set {} to {}", setting, value), errno);
    } catch (const Error& error) {
      failed = error;
    }
  }).join();
  if (failed) throw Error(*failed);
}

std::vector<std::string> sweep_namespaces() {
  std::vector<std::string> swept;
  std::error_code none;  // where nobody has made a namespace yet, there is no folder
  for (const auto& entry : std::filesystem::directory_iterator(kNames, none)) {
    const auto name = entry.path().filename().string();
    const auto maker = maker_of(name);
    if (!maker || started(maker->pid) == maker->started) continue;
    try {
      remove_name(name);
    } catch (const Error&) {
      // Another process may have swept it at the same time.
      if (std::filesystem::exists(entry.path(), none)) throw;
    }
    swept.push_back(name);
  }
  return swept;
}

void require_namespaces() {
  constexpr int kNetAdmin = 12, kSysAdmin = 21;  // of linux/capability.h
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("CapEff:")) continue;
    const auto powers = std::stoull(line.substr(7), nullptr, 16);
    if ((powers >> kNetAdmin & 1) != 0 && (powers >> kSysAdmin & 1) != 0) return;
  }
  throw Error(Code::unsupported,
              fmt::format("[fabric] network namespaces need root; got user id {} without CAP_NET_ADMIN "
                          "and CAP_SYS_ADMIN, expected both",
                          ::geteuid()));
}

}  // namespace ddl
