#include "ddl/core/json.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "ddl/core/error.h"

namespace ddl {

Json parse_json(std::string_view text, std::string_view what) {
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    throw Error(Code::corrupt, fmt::format("[json] {} is not JSON; stopped at byte {}", what, error.byte));
  }
}

void write_file(const std::string& path, std::string_view content) {
  const std::string beside = fmt::format("{}.{}.part", path, ::getpid());
  const auto fail = [&](int number) {
    ::unlink(beside.c_str());
    return system_error(fmt::format("[file] cannot write {}", path), number);
  };
  const int fd = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) throw fail(errno);
  while (!content.empty()) {
    const auto written = ::write(fd, content.data(), content.size());
    if (written < 0) {
      const int number = errno;
      if (number == EINTR) continue;
      ::close(fd);
      throw fail(number);
    }
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  const bool synced = ::fsync(fd) == 0 || errno == EINVAL || errno == EROFS;
  const int sync_errno = errno;
  if (::close(fd) != 0 || !synced) throw fail(synced ? errno : sync_errno);
  if (::rename(beside.c_str(), path.c_str()) != 0) throw fail(errno);
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(Code::not_found, fmt::format("[file] cannot open {}", path));
  std::ostringstream content;
  content << in.rdbuf();
  if (in.bad()) throw Error(Code::io, fmt::format("[file] cannot read {}", path));
  return std::move(content).str();
}

}  // namespace ddl
