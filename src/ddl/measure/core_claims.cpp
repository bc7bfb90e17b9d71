#include "ddl/measure/core_claims.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "ddl/core/error.h"

namespace ddl {

CoreClaims::~CoreClaims() { leave(); }

void CoreClaims::leave() {
  for (const int file : held_) ::close(file);
  held_.clear();
}

std::optional<int> CoreClaims::claim(const std::vector<int>& units) {
  const auto refuse = [this](const std::filesystem::path& path) -> Error {
    const int number = errno;
    leave();
    return {Code::unsupported, fmt::format("[cores] {} cannot be locked: {}", path.string(), std::strerror(number))};
  };
  for (const int unit : units) {
    const auto path = folder_ / fmt::format("cpu{}", unit);
    const int file = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file < 0) throw refuse(path);
    held_.push_back(file);
    if (::flock(file, LOCK_EX | LOCK_NB) == 0) continue;
    if (errno != EWOULDBLOCK) throw refuse(path);
    leave();
    return unit;
  }
  return std::nullopt;
}

}  // namespace ddl
