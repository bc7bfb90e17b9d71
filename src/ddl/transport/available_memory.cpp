#include "ddl/transport/available_memory.h"

#include <fstream>
#include <limits>
#include <string>

namespace ddl {

std::size_t available_memory() {
  std::ifstream meminfo("/proc/meminfo");
  std::string word;
  while (meminfo >> word)
    if (word == "MemAvailable:") {
      std::size_t kibibytes = 0;
      meminfo >> kibibytes;
      return kibibytes << 10;
    }
  return std::numeric_limits<std::size_t>::max();
}

}  // namespace ddl
