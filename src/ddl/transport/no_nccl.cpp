#include "ddl/core/error.h"
#include "ddl/transport/nccl.h"

// Where CMake found no NCCL; it says why in DDL_NCCL_MISSING.

namespace ddl {

std::unique_ptr<Transport> make_nccl(Rendezvous&, const TransportOptions&) {
  throw Error(Code::unsupported, "[nccl] unsupported: " + nccl_missing());
}

std::string nccl_missing() { return DDL_NCCL_MISSING; }

}  // namespace ddl
