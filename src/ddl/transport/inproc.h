#pragma once

#include <memory>

#include "ddl/transport/builtin.h"

namespace ddl {

/// Ranks that are threads of one process; every byte of it is read in place.
/// Errors: invalid_argument when a rank is in another process; those of TransportFactory.
std::unique_ptr<Transport> make_inproc(Rendezvous& rendezvous, const TransportOptions& options);

}  // namespace ddl
