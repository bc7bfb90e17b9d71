#include "ddl/transport/wire.h"

#include <gtest/gtest.h>

#include "ddl/transport/wait_chain.h"
#include "ddl/transport/wire_fuzz.h"

namespace ddl::wire {
namespace {

std::vector<Note> notes_in(const std::string& bytes, std::size_t piece) {
  NoteReader reader;
  std::vector<Note> notes;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    reader.feed(std::as_bytes(std::span(bytes)).subspan(at, std::min(piece, bytes.size() - at)));
    while (auto note = reader.next()) notes.push_back(std::move(*note));
  }
  return notes;
}

template <typename Body>
std::string error_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return fmt::format("{}: {}", name(error.code()), error.what());
  }
  return "none";
}

TEST(Wire, PutsNotesTogetherFromAnyPieces) {
  const auto bytes = encode({Note::Kind::waiting, Code::timeout, {1, 2, 3}, 4, {}}) +
                     encode({Note::Kind::farewell, Code::peer_lost, {5, 6, 7}, -1, "why"}) +
                     encode({Note::Kind::farewell, Code::interrupted, {}, -1, std::string(kMostWords + 1, 'x')});
  for (const std::size_t piece : {1UL, 3UL, 48UL, 1000UL, bytes.size()}) {
    const auto notes = notes_in(bytes, piece);
    ASSERT_EQ(notes.size(), 3U) << piece;
    EXPECT_EQ(notes[0].kind, Note::Kind::waiting);
    EXPECT_EQ(notes[0].signature, (Signature{1, 2, 3}));
    EXPECT_EQ(notes[0].awaits, 4);
    EXPECT_EQ(notes[1].code, Code::peer_lost);
    EXPECT_EQ(notes[1].text, "why");
    EXPECT_EQ(notes[2].text, std::string(kMostWords, 'x'));
  }
}

TEST(Wire, RefusesWhatIsNoNoteThenAndFromThenOn) {
  auto bytes = encode({Note::Kind::waiting, Code::timeout, {}, -1, {}});
  bytes[0] = 9;
  NoteReader reader;
  reader.feed(std::as_bytes(std::span(bytes)));
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(error_of([&] { reader.next(); }), "corrupt: [tcp] no note; got kind 9, code 4, 0 bytes");
}

TEST(Wire, SaysWhyAStrangerIsOne) {
  const auto ours = make_hello(0, 0, 2, "secret");
  EXPECT_EQ(complaint(make_hello(1, 1, 2, "secret"), ours), "");
  EXPECT_EQ(complaint(make_hello(1, 1, 2, "secre"), ours), "wrong secret");
  EXPECT_EQ(complaint(make_hello(1, 1, 3, "secret"), ours), "3 connections per peer, expected 2");
  EXPECT_EQ(complaint(object_of<Hello>({}), ours), "it does not speak ddlbench's protocol");
}

TEST(Wire, ReadsPlacesAndNothingElse) {
  const auto place = parse_place(1, to_string({"127.0.0.1", 65535}));
  EXPECT_EQ(place.host, "127.0.0.1");
  EXPECT_EQ(place.port, 65535);
  for (const char* text : {"", ":", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:80x", "a:1:2", "a: 80"})
    EXPECT_EQ(error_of([&] { parse_place(3, text); }), fmt::format("corrupt: [tcp] rank 3 says no address; got '{}', expected HOST:PORT", text));
}

TEST(Wire, TakesAnyBytes) {
  const auto with = [](Parser parser, std::string bytes) { return static_cast<char>(parser) + std::move(bytes); };
  const auto waiting = encode({Note::Kind::waiting, Code::timeout, {1, 2, 3}, 4, {}});
  std::vector<std::string> inputs{""};
  for (const auto parser : {Parser::hello, Parser::frame, Parser::note, Parser::place})
    for (const std::size_t length : {0UL, 1UL, 7UL, 8UL, 100UL, 5000UL})
      for (const char filling : {'\0', '\1', '\xff', ':'}) inputs.push_back(with(parser, std::string(length, filling)));
  // One byte of a note changed at a time.
  for (std::size_t at = 0; at < waiting.size(); ++at)
    for (const char other : {'\0', '\2', '\x7f', '\xff'}) {
      auto changed = waiting;
      changed[at] = other;
      inputs.push_back(with(Parser::note, static_cast<char>(changed.size()) + changed));
    }
  for (const auto& input : inputs) parse_anything({reinterpret_cast<const std::uint8_t*>(input.data()), input.size()});
}

/// Of the fuzzer's corpus the short ones, each of which took another way through the parsers: none broke anything.
constexpr const char* kCorpus[] = {
    "00",
    "0064646c62656e6368",
    "0064646c62656e636803",
    "0064646c62656e63680365",
    "0064646c62656e63680300000001000000feffffff05000000736563726574",
    "0064646c62656e636803000000010000000000000002000000736563726574",
    "0064646c62656e6368030000000000000001fa00e2736500e2736563726574",
    "01",
    "456664646c",
    "01302d003f",
    "016664646c000000000035",
    "016664646c00000030303030",
    "016664646c6401000000000041",
    "016664646c000000030f00f02703",
    "016664646c00000000007b00000000f83f",
    "016664646c000000000700000000000000001000000000000001000000000000000004130000000000840300000000000000000000000000f03f",
    "fe",
    "0201",
    "320000",
    "02010101000100010001070100280000000000000001000f0000007a7a7a7a7a7a7a7a7a7a7a7a7a9440000300000000",
    "022801000000040000000a0001000000000000390c3fe7aa7f00000020040000000000ff04000300000000000000000000",
    "02010101000100010001040100010001004101fffffdffffffffffffffffffffff00010001fffffdffffffffffffffffffff",
    "020101010101000100010000043f2f00000201010801000201010801000401000000a5012b010064646cfc0500000108030001",
    "020101010001000100000100010001000100010228019800ff01ff00010001ffffff0000000000ffffffffffffff01000100000000",
    "0201010100010001000104010001000100010101000110010301000f010001000100ab01fefeff00f50100010101ffffffffff0e0001000101010000",
    "03",
    "033a",
    "033a33",
    "0300313332332e0101302e32332e302e313a36",
    "ff3a363131353533353737373337373737373135",
    "ff3a3631353533353737373737373737373737353137353733353737",
    "ff3a3030303030303030303030303030303030303030303033313637393532333030ff",
    "ff3a30303030303030303030303030303030303030303030303030303030303030303030303035373838",
    "ff323a363135353335373737373737373737373737373737373737373737373737373737373737373737373737",
};

TEST(Wire, TakesWhatTheFuzzerFound) {
  for (const std::string hex : kCorpus) {
    std::vector<std::uint8_t> input;
    for (std::size_t i = 0; i < hex.size(); i += 2) input.push_back(static_cast<std::uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
    parse_anything(input);
  }
}

TEST(WaitChain, FollowsThoseWhoWaitToTheOneWhoDoesNot) {
  WaitChain chain(4);
  EXPECT_EQ(chain.culprits({1}, Seconds{1}), (std::vector{1}));
  chain.hear(1, 2);
  chain.hear(2, 3);
  EXPECT_EQ(chain.culprits({1}, Seconds{1}), (std::vector{3}));
  EXPECT_EQ(chain.culprits({1}, Seconds{0.1}), (std::vector{1})) << "too short to tell";
  chain.hear(3, 1);
  EXPECT_EQ(chain.culprits({1}, Seconds{1}), (std::vector{1})) << "a circle";
  EXPECT_EQ(chain.circle({1}, Seconds{1}).size(), 4U);
  chain.hear(1, 400);
  EXPECT_EQ(chain.culprits({1}, Seconds{1}), (std::vector{1})) << "no such rank";
}

}  // namespace
}  // namespace ddl::wire
