#include <cstdio>
#include <filesystem>
#include <fstream>

#include "ddl/transport/wire_fuzz.h"

// Writes what the program itself would send, one file each, for the fuzzer to begin with: wire_seeds FOLDER

namespace ddl::wire {
namespace {

template <typename T>
std::string bytes_of(const T& object) {
  return {reinterpret_cast<const char*>(&object), sizeof object};
}

void write(const std::filesystem::path& folder, const char* name, Parser parser, const std::string& bytes) {
  std::ofstream(folder / name, std::ios::binary) << static_cast<char>(parser) << bytes;
}

/// In pieces of so many bytes, each after its length.
std::string in_pieces(const std::string& bytes, std::size_t most) {
  std::string pieces;
  for (std::size_t at = 0; at < bytes.size(); at += most) {
    const auto piece = bytes.substr(at, most);
    pieces += static_cast<char>(piece.size());
    pieces += piece;
  }
  return pieces;
}

void write_all(const std::filesystem::path& folder) {
  write(folder, "hello", Parser::hello, bytes_of(make_hello(1, 0, 2, "secret")));
  write(folder, "hello-of-another-run", Parser::hello, bytes_of(make_hello(1, 0, 2, "another")));
  write(folder, "hello-of-another-shape", Parser::hello, bytes_of(make_hello(1, 0, 5, "secret")));
  Frame frame;
  frame.sequence = 7;
  frame.bytes = 4096;
  frame.signature = {1, 1024, 3};
  write(folder, "frame", Parser::frame, bytes_of(frame));
  const auto waiting = encode({Note::Kind::waiting, Code::timeout, {1, 1024, 3}, 2, {}});
  const auto farewell = encode({Note::Kind::farewell, Code::peer_lost, {1, 1024, 3}, -1, "[tcp] rank 0 lost rank 2: it closed the connection"});
  write(folder, "waiting", Parser::note, in_pieces(waiting, 255));
  write(folder, "waiting-byte-by-byte", Parser::note, in_pieces(waiting, 1));
  write(folder, "waiting-then-farewell", Parser::note, in_pieces(waiting + farewell, 50));
  write(folder, "long-farewell", Parser::note, in_pieces(encode({Note::Kind::farewell, Code::io, {}, -1, std::string(5000, 'x')}), 255));
  write(folder, "place", Parser::place, "127.0.0.1:65535");
}

}  // namespace
}  // namespace ddl::wire

int main(int count, char** words) {
  if (count != 2) return std::fprintf(stderr, "usage: wire_seeds FOLDER\n"), 2;
  std::filesystem::create_directories(words[1]);
  ddl::wire::write_all(words[1]);
  return 0;
}
