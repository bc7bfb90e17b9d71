#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ddl/core/error.h"
#include "ddl/transport/transport.h"

namespace ddl::wire {

// What goes over tcp's sockets, in the machine's byte order: all hosts of a run have the same. Everything that comes in
// goes through the functions here, which take any bytes.

inline constexpr std::uint64_t kMagic = 0x68636e65626c6464ULL;  // "ddlbench", little endian
inline constexpr std::uint32_t kVersion = 3;

/// What both ends of a new connection say first.
struct Hello {
  std::uint64_t magic = kMagic;
  std::uint32_t version = kVersion;
  std::int32_t rank = 0;
  std::int32_t channel = 0;  ///< which of the connections between two ranks
  std::int32_t channels = 1;
  std::array<char, 64> secret{};
};

/// Errors: invalid_argument for a secret of more than 64 characters.
Hello make_hello(int rank, int channel, int channels, const std::string& secret);
/// Why `theirs` is not one of the run of `ours`; empty where it is. Takes as long whatever the secret is.
std::string complaint(const Hello& theirs, const Hello& ours);

/// Where a rank listens.
struct Place {
  std::string host;
  std::uint16_t port = 0;
};
std::string to_string(const Place& place);
/// The inverse, of what `peer` says. Errors: corrupt.
Place parse_place(int peer, std::string_view text);

/// Before every payload.
struct Frame {
  std::uint32_t magic = 0x6c646466;
  std::uint32_t reserved = 0;
  std::uint64_t sequence = 0;  ///< of the messages on this connection
  std::uint64_t bytes = 0;     ///< of the payload
  Signature signature;
  double factor = 1;
};
/// Errors: corrupt, where it is none, or not number `sequence`.
void check_frame(const Frame& frame, std::uint64_t sequence, int peer, int rank);

/// What ranks tell each other beside their messages: what they wait at, and why they give up.
struct Note {
  enum class Kind : std::uint32_t { waiting = 1, farewell = 2 };
  Kind kind = Kind::waiting;
  Code code = Code::io;  ///< of a farewell
  Signature signature;   ///< of one who waits
  std::int32_t awaits = -1;  ///< for this rank
  std::string text;      ///< of a farewell, at most kMostWords of it
};
inline constexpr std::size_t kMostWords = 4096;
std::string encode(const Note& note);

/// Puts notes together from the pieces in which their bytes come.
class NoteReader {
 public:
  void feed(std::span<const std::byte> bytes);
  /// The next whole one. Errors: corrupt, once what came is no note; then and from then on.
  std::optional<Note> next();

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace ddl::wire
