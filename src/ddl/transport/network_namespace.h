#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "ddl/transport/unique_fd.h"

namespace ddl {

/// A network namespace with a name for `ip netns`, made by the constructor and removed by the destructor: everything in
/// it (devices, addresses, queues) goes with it, once no process is left inside.
///
/// The name carries its maker: `ddlbench-PID-STARTED-…`, where STARTED (the process's start in clock ticks since boot)
/// tells it from a later process with the same id. So sweep_namespaces() can remove what a killed maker left.
class NetworkNamespace {
 public:
  /// Its name is `ddlbench-PID-STARTED-` and `suffix`.
  /// Errors: io (it exists, or `ip netns add` fails), unsupported without iproute2.
  explicit NetworkNamespace(std::string_view suffix);
  /// In a forked child it removes nothing. What cannot be removed is said on stderr.
  ~NetworkNamespace();
  NetworkNamespace(NetworkNamespace&& other) noexcept;
  NetworkNamespace& operator=(NetworkNamespace&&) = delete;

  const std::string& name() const { return name_; }
  int fd() const { return fd_.get(); }

 private:
  std::string name_;
  pid_t maker_;
  UniqueFd fd_;
};

/// Takes the calling thread, and whatever it starts, into the namespace behind `fd`. Meant for a forked child, before
/// it executes a program or starts threads. Errors: io.
void enter_namespace(int fd);

/// Writes a setting of the network's, a file under /proc/sys/net, in the namespace behind `fd`; on a thread of its own,
/// since whose setting it is depends on who opens it. Errors: io.
void set_in_namespace(int fd, const std::string& setting, const std::string& value);

/// Removes the namespaces whose maker is dead and returns their names. Errors: io, unsupported without iproute2.
std::vector<std::string> sweep_namespaces();

/// What making one takes: CAP_SYS_ADMIN and CAP_NET_ADMIN. Errors: unsupported.
void require_namespaces();

/// Runs `ip` or `tc`. Errors: those of run_command().
std::string run_iproute2(const std::vector<std::string>& command);

}  // namespace ddl
