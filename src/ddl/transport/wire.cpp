#include "ddl/transport/wire.h"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace ddl::wire {
namespace {

/// In a time that says nothing about where they differ.
bool same_secret(const Hello& a, const Hello& b) {
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.secret.size(); ++i)
    difference |= static_cast<unsigned char>(a.secret[i]) ^ static_cast<unsigned char>(b.secret[i]);
  return difference == 0;
}

}  // namespace

Hello make_hello(int rank, int channel, int channels, const std::string& secret) {
  Hello hello;
  if (secret.size() > hello.secret.size())
    throw Error(Code::invalid_argument, fmt::format("[tcp] the secret is too long; got {} characters, expected at most {}",
                                                    secret.size(), hello.secret.size()));
  hello.rank = rank;
  hello.channel = channel;
  hello.channels = channels;
  std::copy(secret.begin(), secret.end(), hello.secret.begin());
  return hello;
}

std::string complaint(const Hello& theirs, const Hello& ours) {
  if (theirs.magic != kMagic) return "it does not speak ddlbench's protocol";
  if (theirs.version != kVersion) return fmt::format("version {}, expected {}", theirs.version, kVersion);
  if (!same_secret(theirs, ours)) return "wrong secret";
  if (theirs.channels != ours.channels) return fmt::format("{} connections per peer, expected {}", theirs.channels, ours.channels);
  return {};
}

std::string to_string(const Place& place) { return fmt::format("{}:{}", place.host, place.port); }

Place parse_place(int peer, std::string_view text) {
  Place place;
  const auto colon = text.find(':');
  const char* const end = text.data() + text.size();
  const auto number = colon == std::string_view::npos ? std::from_chars_result{end, std::errc::invalid_argument}
                                                      : std::from_chars(text.data() + colon + 1, end, place.port);
  if (number.ec != std::errc{} || number.ptr != end)
    throw Error(Code::corrupt, fmt::format("[tcp] rank {} says no address; got '{}', expected HOST:PORT", peer, text));
  place.host = text.substr(0, colon);
  return place;
}

void check_frame(const Frame& frame, std::uint64_t sequence, int peer, int rank) {
  const Frame expected;
  if (frame.magic != expected.magic)
    throw Error(Code::corrupt, fmt::format("[tcp] rank {} got no frame from rank {}; got {:#x}, expected {:#x}", rank, peer,
                                           frame.magic, expected.magic));
  if (frame.sequence != sequence)
    throw Error(Code::corrupt, fmt::format("[tcp] rank {} got message {} from rank {}, expected message {}", rank,
                                           frame.sequence, peer, sequence));
}

namespace {

/// Before a note's text.
struct NoteHead {
  std::uint32_t kind = 0;
  std::uint32_t code = 0;
  Signature signature;
  std::int32_t awaits = -1;
  std::uint32_t size = 0;
};

}  // namespace

std::string encode(const Note& note) {
  NoteHead head;
  head.kind = static_cast<std::uint32_t>(note.kind);
  head.code = static_cast<std::uint32_t>(note.code);
  head.signature = note.signature;
  head.awaits = note.awaits;
  head.size = static_cast<std::uint32_t>(std::min(note.text.size(), kMostWords));
  std::string bytes(sizeof head, '\0');
  std::memcpy(bytes.data(), &head, sizeof head);
  return bytes.append(note.text, 0, head.size);
}

void NoteReader::feed(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }

std::optional<Note> NoteReader::next() {
  NoteHead head;
  if (bytes_.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, bytes_.data(), sizeof head);
  const bool known = head.kind == static_cast<std::uint32_t>(Note::Kind::waiting) || head.kind == static_cast<std::uint32_t>(Note::Kind::farewell);
  if (!known || head.size > kMostWords || head.code > static_cast<std::uint32_t>(Code::interrupted))
    throw Error(Code::corrupt, fmt::format("[tcp] no note; got kind {}, code {}, {} bytes", head.kind, head.code, head.size));
  if (bytes_.size() < sizeof head + head.size) return std::nullopt;
  Note note{static_cast<Note::Kind>(head.kind), static_cast<Code>(head.code), head.signature, head.awaits,
            std::string(reinterpret_cast<const char*>(bytes_.data()) + sizeof head, head.size)};
  bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(sizeof head + head.size));
  return note;
}

}  // namespace ddl::wire
