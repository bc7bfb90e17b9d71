#pragma once

#include <memory>
#include <string>

#include "ddl/transport/builtin.h"

namespace ddl {

/// NCCL among GPUs: this rank's is number rank modulo the GPUs that it sees. Messages and collectives are of memory on the
/// device, as allocate() gives it; NCCL reduces there, so that schedules that reduce are unsupported, and "native" is what
/// to ask for. NCCL carries no words: ranks that disagree end in a timeout.
/// Errors: those of TransportFactory; unsupported without CUDA in this build, or without a GPU.
std::unique_ptr<Transport> make_nccl(Rendezvous& rendezvous, const TransportOptions& options);

/// Why this build has none; empty where it has.
std::string nccl_missing();

}  // namespace ddl
