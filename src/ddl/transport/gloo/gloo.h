#pragma once

#include <memory>
#include <string>

#include "ddl/transport/builtin.h"

namespace ddl {

/// The Gloo inside LibTorch. Errors: unsupported, with the reason.
std::unique_ptr<Transport> make_gloo(Rendezvous& rendezvous, const TransportOptions& options);

/// Loads it, and LibTorch with it, which takes a second: processes that are forked later have it. Errors: unsupported.
void load_gloo();

/// Why this build has none.
std::string gloo_missing();

}  // namespace ddl
