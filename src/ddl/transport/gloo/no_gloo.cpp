#include "ddl/core/error.h"
#include "ddl/transport/gloo/gloo.h"

// LibTorch's wheel has Gloo's code but not its headers, and another Gloo's would not fit it. DDL_GLOO_MISSING says which of
// the two it was at configure time.

namespace ddl {

std::unique_ptr<Transport> make_gloo(Rendezvous&, const TransportOptions&) {
  throw Error(Code::unsupported, "[gloo] unsupported: " + gloo_missing());
}

void load_gloo() { throw Error(Code::unsupported, "[gloo] unsupported: " + gloo_missing()); }

std::string gloo_missing() { return DDL_GLOO_MISSING; }

}  // namespace ddl
