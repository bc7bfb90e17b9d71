#pragma once

#include <optional>
#include <string>

namespace ddl {

/// What the cores of this host have done since it started, all of them together: seconds, in hundredths.
struct HostTime {
  double busy = 0;    ///< for whatever ran here
  double idle = 0;
  double stolen = 0;  ///< what a hypervisor gave to others while something here was ready to run
  double all() const { return busy + idle + stolen; }
};

/// Nothing where the kernel does not say. From /proc/stat.
std::optional<HostTime> host_time();
/// The same of the text of that file.
std::optional<HostTime> parse_host_time(const std::string& text);

/// Seconds for which this process, all its threads, has had a core.
double own_core_seconds();

}  // namespace ddl
