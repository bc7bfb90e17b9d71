#include "ddl/transport/transport.h"

namespace ddl {

void Transport::share(std::span<std::byte>, double, std::span<Shared>, Seconds, const Signature&) {
  throw Error(Code::unsupported, "[transport] its ranks share no memory");
}

void Transport::unshare(Seconds, const Traffic&) { throw Error(Code::unsupported, "[transport] its ranks share no memory"); }

std::string Transport::describe(const Signature& signature) const {
  if (describe_ != nullptr) return describe_(signature);
  return fmt::format("{:x}/{}", signature.what, signature.size);
}

}  // namespace ddl
