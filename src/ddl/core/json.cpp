#include "ddl/core/json.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
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

namespace {

void write_all(int fd, std::string_view content, const std::string& path) {
  while (!content.empty()) {
    const auto written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw system_error(fmt::format("[file] cannot write {}", path), errno);
    content.remove_prefix(static_cast<std::size_t>(written));
  }
}

/// A device or a pipe is written to; putting a file in its place would take it away from everyone.
void write_through(const std::string& path, std::string_view content) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) throw system_error(fmt::format("[file] cannot open {}", path), errno);
  try {
    write_all(fd, content, path);
  } catch (...) {
    ::close(fd);
    throw;
  }
  if (::close(fd) != 0) throw system_error(fmt::format("[file] cannot write {}", path), errno);
}

/// Where a link leads, not the link, is replaced; one that leads nowhere yet is followed too.
std::string where_it_leads(const std::string& name) {
  namespace fs = std::filesystem;
  constexpr int kMost = 40;  // as many as Linux follows
  fs::path path = name;
  std::error_code failed;
  for (int followed = 0; followed < kMost && fs::is_symlink(fs::symlink_status(path, failed)); ++followed) {
    const auto target = fs::read_symlink(path, failed);
    if (failed) break;
    path = path.parent_path() / target;
  }
  return path.string();
}

}  // namespace

void write_file(const std::string& name, std::string_view content) {
  struct stat target {};
  const bool exists = ::stat(name.c_str(), &target) == 0;
  if (exists && !S_ISREG(target.st_mode)) return write_through(name, content);
  const std::string path = where_it_leads(name);
  const std::string beside = fmt::format("{}.{}.part", path, ::getpid());
  const auto fail = [&](int number) {
    ::unlink(beside.c_str());
    return system_error(fmt::format("[file] cannot write {}", name), number);
  };
  const int fd = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) throw fail(errno);
  try {
    write_all(fd, content, name);
  } catch (...) {
    ::close(fd);
    ::unlink(beside.c_str());
    throw;
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
