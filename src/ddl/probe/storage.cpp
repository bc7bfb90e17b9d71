#include "ddl/probe/storage.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "ddl/core/error.h"
#include "ddl/core/statistics.h"
#include "ddl/measure/clock.h"

namespace ddl {
namespace {

constexpr std::int64_t kPiece = std::int64_t{1} << 20;
constexpr std::int64_t kSmall = 4096;
constexpr int kFewest = 16;

/// Gone with the object.
class ScratchFile {
 public:
  explicit ScratchFile(std::string folder) : folder_(std::move(folder)), path_(folder_ + "/ddlbench-probe-XXXXXX") {
    fd_ = ::mkstemp(path_.data());
    if (fd_ < 0) fail("cannot be written to");
    // Nobody else needs its name.
    ::unlink(path_.c_str());
  }
  ~ScratchFile() { ::close(fd_); }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  int fd() const { return fd_; }
  [[noreturn]] void fail(const char* what) const { throw Error(Code::io, fmt::format("[storage] {} {}: {}", folder_, what, std::strerror(errno))); }

 private:
  std::string folder_, path_;
  int fd_ = -1;
};

void fill(const ScratchFile& file, std::int64_t bytes) {
  // Storage that packs what it is given is not to make anything of it.
  std::mt19937_64 draw(1);
  std::vector<std::uint64_t> piece(static_cast<std::size_t>(kPiece) / sizeof(std::uint64_t));
  for (std::int64_t at = 0; at < bytes; at += kPiece) {
    for (auto& word : piece) word = draw();
    if (::pwrite(file.fd(), piece.data(), static_cast<std::size_t>(kPiece), at) != kPiece) file.fail("has no room for what is to be read");
  }
}

void forget(const ScratchFile& file) {
  if (::fsync(file.fd()) != 0) file.fail("does not keep what is written");
  ::posix_fadvise(file.fd(), 0, 0, POSIX_FADV_DONTNEED);
}

double resident_share(const ScratchFile& file, std::int64_t bytes) {
  const auto page = static_cast<std::int64_t>(::sysconf(_SC_PAGESIZE));
  auto* const mapped = ::mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ, MAP_SHARED, file.fd(), 0);
  if (mapped == MAP_FAILED) file.fail("cannot be looked at");
  std::vector<unsigned char> pages(static_cast<std::size_t>((bytes + page - 1) / page));
  const bool told = ::mincore(mapped, static_cast<std::size_t>(bytes), pages.data()) == 0;
  ::munmap(mapped, static_cast<std::size_t>(bytes));
  if (!told) file.fail("cannot be looked at");
  return static_cast<double>(std::count_if(pages.begin(), pages.end(), [](unsigned char each) { return (each & 1) != 0; })) / static_cast<double>(pages.size());
}

void read(const ScratchFile& file, std::vector<char>& to, std::int64_t at) {
  if (::pread(file.fd(), to.data(), to.size(), at) != static_cast<ssize_t>(to.size())) file.fail("does not give back what was written");
}

}  // namespace

StorageTimes measure_storage(const std::string& folder, std::int64_t bytes, Seconds budget) {
  if (bytes < kPiece) throw Error(Code::invalid_argument, fmt::format("[storage] bytes to read; got {}, expected 1 MiB or more", bytes));
  bytes = bytes / kPiece * kPiece;
  const ScratchFile file(folder);
  fill(file, bytes);
  StorageTimes times;
  forget(file);
  times.resident = resident_share(file, bytes);
  std::vector<char> piece(static_cast<std::size_t>(kPiece));
  std::int64_t taken = 0;
  auto begin = now();
  while (taken < bytes && (taken < kFewest * kPiece || seconds(now() - begin) < budget.value)) {
    read(file, piece, taken);
    taken += kPiece;
  }
  times.bytes_per_s = static_cast<double>(taken) / seconds(now() - begin);
  // What the kernel reads ahead is in memory by now.
  forget(file);
  ::posix_fadvise(file.fd(), 0, 0, POSIX_FADV_RANDOM);
  std::vector<char> small(static_cast<std::size_t>(kSmall));
  std::mt19937_64 draw(2);
  std::vector<double> took;
  begin = now();
  for (int each = 0; each < 1000 && (each < kFewest || seconds(now() - begin) < budget.value); ++each) {
    const auto at = static_cast<std::int64_t>(draw() % static_cast<std::uint64_t>(bytes / kSmall)) * kSmall;
    const auto from = now();
    read(file, small, at);
    took.push_back(seconds(now() - from));
  }
  times.read_seconds = median(took);
  return times;
}

}  // namespace ddl
