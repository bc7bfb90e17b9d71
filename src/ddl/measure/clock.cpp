#include "ddl/measure/clock.h"

#include "ddl/core/text.h"

namespace ddl {

std::string utc_now() {
  timespec time{};
  ::clock_gettime(CLOCK_REALTIME, &time);
  std::tm parts{};
  ::gmtime_r(&time.tv_sec, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, time.tv_nsec / 1'000'000);
}

}  // namespace ddl
