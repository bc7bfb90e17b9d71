#include "ddl/measure/host_time.h"

#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <sstream>

namespace ddl {

std::optional<HostTime> parse_host_time(const std::string& text) {
  std::istringstream line(text.substr(0, text.find('\n')));
  std::string name;
  // user nice system idle iowait irq softirq steal; what guests had is in user (proc(5)).
  std::array<double, 8> ticks{};
  if (!(line >> name) || name != "cpu") return std::nullopt;
  for (auto& each : ticks)
    if (!(line >> each)) return std::nullopt;
  const double tick = 1.0 / static_cast<double>(::sysconf(_SC_CLK_TCK));
  return HostTime{(ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6]) * tick, (ticks[3] + ticks[4]) * tick, ticks[7] * tick};
}

std::optional<HostTime> host_time() {
  std::ifstream file("/proc/stat");
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return parse_host_time(line);
}

double own_core_seconds() {
  rusage use{};
  ::getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& time) { return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6; };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

}  // namespace ddl
