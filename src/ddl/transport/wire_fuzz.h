#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "ddl/transport/wire.h"

namespace ddl::wire {

// Any bytes, through every function that reads what came over a socket or from the meeting. The fuzzer calls it, and so
// does a test, with inputs that are worth keeping.
//
// The first byte chooses the parser:
enum class Parser : std::uint8_t { hello, frame, note, place };
inline constexpr std::uint8_t kParsers = 4;

/// An input's beginning, as a T; zeros follow where it is short.
template <typename T>
T object_of(std::span<const std::uint8_t> bytes) {
  T object;
  std::memset(static_cast<void*>(&object), 0, sizeof object);
  if (!bytes.empty()) std::memcpy(static_cast<void*>(&object), bytes.data(), std::min(bytes.size(), sizeof object));
  return object;
}

/// Notes in pieces, as a socket gives them: before each piece a byte says how long it is.
inline void read_notes(std::span<const std::uint8_t> bytes) {
  NoteReader reader;
  std::size_t fed = 0, told = 0;
  while (!bytes.empty()) {
    const auto piece = bytes.subspan(1, std::min<std::size_t>(bytes[0], bytes.size() - 1));
    bytes = bytes.subspan(1 + piece.size());
    reader.feed(std::as_bytes(piece));
    fed += piece.size();
    while (const auto note = reader.next()) {
      told += encode(*note).size();
      invariant(note->text.size() <= kMostWords && told <= fed, "a note is no more than what came");
      std::string(name(note->code));  // one of the codes
    }
  }
}

/// Errors never leave it; anything else that does is a bug.
inline void parse_anything(std::span<const std::uint8_t> input) {
  if (input.empty()) return;
  const auto bytes = input.subspan(1);
  try {
    switch (static_cast<Parser>(input[0] % kParsers)) {
      case Parser::hello: {
        const auto ours = make_hello(0, 0, 2, "secret");
        const auto theirs = object_of<Hello>(bytes);
        const bool same = theirs.magic == ours.magic && theirs.version == ours.version && theirs.secret == ours.secret &&
                          theirs.channels == ours.channels;
        invariant(complaint(theirs, ours).empty() == same, "no stranger is admitted");
        break;
      }
      case Parser::frame: {
        const auto frame = object_of<Frame>(bytes);
        check_frame(frame, 7, 1, 0);
        invariant(frame.sequence == 7, "a frame is in its turn");
        break;
      }
      case Parser::note: read_notes(bytes); break;
      case Parser::place: {
        const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        const auto place = parse_place(1, text);
        invariant(place.host.find(':') == std::string::npos, "a host is no place");
        break;
      }
    }
  } catch (const Error&) {
  }
}

}  // namespace ddl::wire
