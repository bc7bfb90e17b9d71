#include "ddl/data/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "ddl/core/error.h"

namespace ddl {
namespace {

// Deflate codes at most 258 bytes in 2 bits: https://zlib.net/zlib_tech.html, "Maximum Compression Factor".
constexpr std::uint64_t kDeflateMost = 1032;

class RawSource final : public ByteSource {
 public:
  RawSource(int fd, std::uint64_t size, std::string place) : fd_(fd), size_(size), place_(std::move(place)) {}
  ~RawSource() override { ::close(fd_); }
  RawSource(const RawSource&) = delete;
  RawSource& operator=(const RawSource&) = delete;

  std::size_t read(std::uint8_t* to, std::size_t count) override {
    std::size_t got = 0;
    while (got < count) {
      const auto n = ::read(fd_, to + got, count - got);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) throw system_error(fmt::format("{}: cannot read", place_), errno);
      if (n == 0) break;
      got += static_cast<std::size_t>(n);
    }
    return got;
  }
  std::uint64_t limit() const override { return size_; }
  bool compressed() const override { return false; }
  const std::string& place() const { return place_; }

  void rewind() {
    if (::lseek(fd_, 0, SEEK_SET) < 0) throw system_error(fmt::format("{}: cannot seek", place_), errno);
  }

 private:
  int fd_;
  std::uint64_t size_;
  std::string place_;
};

class GzipSource final : public ByteSource {
 public:
  explicit GzipSource(std::unique_ptr<RawSource> file) : file_(std::move(file)) {
    // 15 bits of window; 16 more ask zlib for the gzip wrapper and its check sum.
    if (::inflateInit2(&stream_, 15 + 16) != Z_OK)
      throw Error(Code::io, fmt::format("{}: zlib cannot start", file_->place()));
  }
  ~GzipSource() override { ::inflateEnd(&stream_); }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

  std::size_t read(std::uint8_t* to, std::size_t count) override {
    std::size_t got = 0;
    while (got < count && !(ended_ && !next_member())) {
      const auto room = static_cast<uInt>(std::min<std::size_t>(count - got, 1U << 30));
      stream_.next_out = to + got;
      stream_.avail_out = room;
      refill();
      const int result = ::inflate(&stream_, Z_NO_FLUSH);
      got += room - stream_.avail_out;
      if (result == Z_STREAM_END) {
        ended_ = true;
      } else if (result == Z_BUF_ERROR || (result == Z_OK && stream_.avail_in == 0 && at_end_ &&
                                           stream_.avail_out > 0)) {
        throw Error(Code::corrupt, fmt::format("{}: truncated gzip stream; got {} bytes, expected more", file_->place(),
                                               consumed()));
      } else if (result != Z_OK) {
        throw Error(Code::corrupt, fmt::format("{}: corrupt gzip stream near byte {}; got '{}'", file_->place(),
                                               consumed(), stream_.msg != nullptr ? stream_.msg : "no reason"));
      }
    }
    return got;
  }
  std::uint64_t limit() const override { return file_->limit() * kDeflateMost; }
  bool compressed() const override { return true; }

 private:
  void refill() {
    if (stream_.avail_in > 0 || at_end_) return;
    const std::size_t got = file_->read(input_.data(), input_.size());
    at_end_ = got < input_.size();
    taken_ += got;
    stream_.next_in = input_.data();
    stream_.avail_in = static_cast<uInt>(got);
  }

  // A gzip file may be several members one after the other (RFC 1952, 2.2).
  bool next_member() {
    refill();
    if (stream_.avail_in == 0) return false;
    if (*stream_.next_in != 0x1f)
      throw Error(Code::corrupt, fmt::format("{}: trailing bytes behind the gzip stream; got {} bytes, expected {}",
                                             file_->place(), file_->limit(), consumed()));
    ::inflateReset(&stream_);
    ended_ = false;
    return true;
  }

  std::uint64_t consumed() const { return taken_ - stream_.avail_in; }

  std::unique_ptr<RawSource> file_;
  z_stream stream_{};
  std::array<std::uint8_t, 1 << 16> input_{};
  std::uint64_t taken_ = 0;
  bool at_end_ = false;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<ByteSource> open_bytes(const std::string& path, const std::string& who) {
  std::string place = fmt::format("[{}] {}", who, path);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
    throw Error(Code::not_found, fmt::format("{}: no such file", place));
  if (fd < 0) throw system_error(fmt::format("{}: cannot open", place), errno);
  struct stat status {};
  const bool known = ::fstat(fd, &status) == 0;
  const bool regular = known && S_ISREG(status.st_mode);
  auto file = std::make_unique<RawSource>(fd, known ? static_cast<std::uint64_t>(status.st_size) : 0, place);
  if (!regular) throw Error(Code::io, fmt::format("{}: not a regular file", place));
  std::array<std::uint8_t, 2> magic{};
  const bool gzip = file->read(magic.data(), 2) == 2 && magic[0] == 0x1f && magic[1] == 0x8b;
  file->rewind();
  if (gzip) return std::make_unique<GzipSource>(std::move(file));
  return file;
}

}  // namespace ddl
