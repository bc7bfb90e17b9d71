#include "ddl/transport/check.h"

#include <algorithm>

#include "ddl/core/error.h"
#include "ddl/core/text.h"

namespace ddl {
namespace {

void check_peer(std::string_view transport, int rank, int size, int peer) {
  if (peer < 0 || peer >= size || peer == rank)
    throw Error(Code::invalid_argument, fmt::format("[{}] rank {} has no such peer; got {}, expected another rank of {}",
                                                    transport, rank, peer, size));
}

}  // namespace

void check_messages(std::string_view transport, int rank, int size, std::span<const Outgoing> outgoing,
                    std::span<const Incoming> incoming) {
  for (const auto& message : outgoing) check_peer(transport, rank, size, message.peer);
  for (const auto& message : incoming) {
    check_peer(transport, rank, size, message.peer);
    if (message.bytes != 0 && message.into == nullptr && message.sink.take == nullptr)
      throw Error(Code::invalid_argument, fmt::format("[{}] rank {} has no place for {} bytes from rank {}", transport,
                                                      rank, message.bytes, message.peer));
  }
}

void throw_interrupted(std::string_view transport, int rank) {
  throw Error(Code::interrupted, fmt::format("[{}] rank {} was interrupted", transport, rank));
}

void throw_disagreement(std::string_view transport, int peer, const std::string& theirs, int rank, const std::string& ours) {
  // The lower rank first, so that both sides say the same.
  const bool first = rank < peer;
  throw Error(Code::invalid_argument,
              fmt::format("[{}] ranks must start the same collectives in the same order; got {} on rank {} and {} on rank {}",
                          transport, first ? ours : theirs, first ? rank : peer, first ? theirs : ours, first ? peer : rank));
}

void throw_wrong_length(std::string_view transport, int from, int to, std::uint64_t got, std::uint64_t expected) {
  throw Error(Code::corrupt, fmt::format("[{}] the message from rank {} to rank {} has another length; got {} bytes, "
                                         "expected {}", transport, from, to, got, expected));
}

std::string list_of_ranks(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  std::vector<std::string> words;
  for (const int rank : ranks) words.push_back(std::to_string(rank));
  return join(words, ", ");
}

}  // namespace ddl
