#pragma once

#include <memory>

#include "ddl/transport/builtin.h"

namespace ddl {

/// One socket per pair of ranks. A message is a header {sequence, bytes} and its payload.
/// Errors: those of TransportFactory; invalid_argument for a host or a secret that cannot be.
std::unique_ptr<Transport> make_tcp(Rendezvous& rendezvous, const TransportOptions& options);

}  // namespace ddl
