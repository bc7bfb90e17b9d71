#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ddl/core/registry.h"
#include "ddl/transport/rendezvous.h"
#include "ddl/transport/transport.h"

namespace ddl {

struct TransportOptions {
  Seconds connect_timeout{60};
  /// Random text shared by the ranks of one run: a stranger who connects without it is refused.
  std::string secret;
  /// tcp: the IPv4 address of the interface to listen on, which the other ranks connect to.
  std::string host = "127.0.0.1";
  /// tcp: connections between two ranks that share a large message.
  int sockets = 1;
  /// mpi: openmpi, mpich or intel; empty: the one whose launcher started this process, or else the first that is here.
  std::string implementation;
  /// tcp: a message is complete at its receiver no earlier than so long after the kernel got its last byte there, as if
  /// the wire were longer. Messages under way at once are late together, not one after the other. 0: as it comes.
  Seconds latency{0};
  /// inproc: reads in place only what came from allocate(), as shm does, and copies the rest through it.
  bool staged = false;
};

/// Blocks until every rank is connected. Errors: timeout (which ranks are missing), io, peer_lost.
using TransportFactory = std::function<std::unique_ptr<Transport>(Rendezvous&, const TransportOptions&)>;

/// inproc, shm, tcp, mpi, nccl, gloo.
Registry<TransportFactory> builtin_transports();
/// Those whose ranks need nothing but a rendezvous: no launcher, no device.
std::vector<std::string> self_standing_transports();

/// A transport as users write it, with its options: "tcp[sockets=4]", "mpi[implementation=intel]".
struct ChosenTransport {
  std::string name;
  TransportFactory make;
  TransportOptions options;
};
/// Errors: those of Registry::at(); invalid_argument for an option that it does not have, or a bad value.
ChosenTransport choose_transport(std::string_view text, TransportOptions options);

}  // namespace ddl
