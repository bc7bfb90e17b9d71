#include "ddl/measure/memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

#include "ddl/core/error.h"

namespace ddl {

KernelMemory kernel_memory() {
  std::ifstream status("/proc/self/status");
  if (!status) throw Error(Code::io, "[memory] cannot read /proc/self/status");
  KernelMemory memory;
  std::string line;
  while (std::getline(status, line)) {
    std::istringstream fields(line);
    std::string key;
    std::int64_t kibibytes = 0;
    if (!(fields >> key >> kibibytes)) continue;
    if (key == "VmRSS:") memory.resident = kibibytes * 1024;
    if (key == "VmHWM:") memory.peak_resident = kibibytes * 1024;
    if (key == "RssShmem:") memory.shared = kibibytes * 1024;
  }
  return memory;
}

std::int64_t total_memory() { return static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE); }

std::int64_t last_level_cache_bytes() {
  std::int64_t largest = 0;
  // Of what a core has of its own or with neighbours. The C library counts it otherwise in some virtual machines: 320 MiB where a core has 32.
  for (int index = 0; index < 8; ++index) {
    const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index);
    std::ifstream type(folder + "/type"), size(folder + "/size");
    std::string kind, unit;
    std::int64_t count = 0;
    if (!(type >> kind) || kind == "Instruction" || !(size >> count)) continue;
    size >> unit;
    largest = std::max(largest, count * (unit == "K" ? std::int64_t{1} << 10 : unit == "M" ? std::int64_t{1} << 20 : 1));
  }
  if (largest > 0) return largest;
  for (const int level : {_SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE, _SC_LEVEL4_CACHE_SIZE}) largest = std::max<std::int64_t>(largest, ::sysconf(level));
  return largest;
}

std::int64_t processes_killed_for_memory() {
  std::ifstream counters("/proc/vmstat");
  std::string name;
  for (std::int64_t count = 0; counters >> name >> count;)
    if (name == "oom_kill") return count;
  return 0;
}

bool reset_peak_resident() {
  const int fd = ::open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool written = ::write(fd, "5", 1) == 1;
  ::close(fd);
  return written;
}

}  // namespace ddl
