#pragma once

#include <string>

namespace ddl {

/// Who coordinates a run: a process number comes round again, so its start time goes with it, and the boot of the
/// machine, since both come round after a restart. Kept in the store as one line of text.
struct Owner {
  long process = 0;
  long long start = 0;   ///< clock ticks after boot, field 22 of /proc/PID/stat
  std::string boot;      ///< /proc/sys/kernel/random/boot_id
  std::string host;

  bool operator==(const Owner&) const = default;
};

Owner this_process();
std::string to_text(const Owner& owner);
/// A line that is no owner gives process 0, which is never alive.
Owner owner_from_text(const std::string& line);

/// Whether the coordinator has certainly ended. On a store that several hosts share, one of another host is not known
/// to have ended: its processes cannot be seen from here.
bool is_gone(const Owner& owner, bool shared_between_hosts);

}  // namespace ddl
