#pragma once

#include <vector>

#include "ddl/transport/builtin.h"
#include "ddl/transport/unique_fd.h"

namespace ddl {

/// `channels` connected, non-blocking sockets to every other rank, by rank (our own are invalid). Rank i connects to all
/// j < i;
/// both ends prove that they belong to the run. Whoever else connects is refused with a line on stderr.
/// Errors: timeout (which ranks are missing), io, peer_lost, invalid_argument.
std::vector<std::vector<UniqueFd>> connect_all(Rendezvous& rendezvous, const TransportOptions& options, int channels);

}  // namespace ddl
