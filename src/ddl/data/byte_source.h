#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace ddl {

/// The bytes of a file from its beginning, decompressed where it is gzip (told by its first two bytes, not by its
/// name). Threads: one caller.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Writes up to `count` bytes to `to` and returns how many: fewer only at the end, which a gzip stream reaches
  /// only with its check sum right. Errors: io; corrupt on a damaged, truncated or trailed gzip stream.
  virtual std::size_t read(std::uint8_t* to, std::size_t count) = 0;
  /// No more bytes than these can come, whatever the content says: the size, or what deflate could make of it.
  virtual std::uint64_t limit() const = 0;
  virtual bool compressed() const = 0;
};

/// `who` begins the messages: "idx" -> `[idx] <path>: …`. Errors: not_found; io, also on what is no regular file.
std::unique_ptr<ByteSource> open_bytes(const std::string& path, const std::string& who);

}  // namespace ddl
