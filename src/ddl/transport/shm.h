#pragma once

#include <memory>

#include "ddl/transport/builtin.h"

namespace ddl {

/// Processes (or threads) of one host: each rank's allocate() memory lies in an anonymous file that all map.
/// Errors: those of TransportFactory; io also when a rank is on another host.
std::unique_ptr<Transport> make_shm(Rendezvous& rendezvous, const TransportOptions& options);

}  // namespace ddl
