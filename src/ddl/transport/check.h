#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ddl/transport/transport.h"

namespace ddl {

// What every transport says in the same words.

/// Errors: invalid_argument where a message's peer is not another rank of the group, or it goes nowhere.
void check_messages(std::string_view transport, int rank, int size, std::span<const Outgoing> outgoing,
                    std::span<const Incoming> incoming);

[[noreturn]] void throw_interrupted(std::string_view transport, int rank);

/// Two ranks are not at the same operation.
[[noreturn]] void throw_disagreement(std::string_view transport, int peer, const std::string& theirs, int rank,
                                     const std::string& ours);
/// They are, but a message is not as long as it should be.
[[noreturn]] void throw_wrong_length(std::string_view transport, int from, int to, std::uint64_t got,
                                     std::uint64_t expected);

/// "1, 3" of 3, 1, 3.
std::string list_of_ranks(std::vector<int> ranks);

}  // namespace ddl
