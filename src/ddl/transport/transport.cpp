#include "ddl/transport/transport.h"

namespace ddl {

bool Transport::reachable(std::span<const std::byte>) const { return false; }

void Transport::share(const Shown&, std::span<Shared>, Seconds, const Signature&) {
  throw Error(Code::unsupported, "[transport] its ranks share no memory");
}

void Transport::unshare(Seconds, const Traffic&) { throw Error(Code::unsupported, "[transport] its ranks share no memory"); }

void Transport::depart(const Error& why) noexcept {
  {
    const std::lock_guard lock(parting_);
    if (!words_) words_ = why;
  }
  interrupt();
}

std::optional<Error> Transport::parting_words() const {
  const std::lock_guard lock(parting_);
  return words_;
}

std::string Transport::describe(const Signature& signature) const {
  if (describe_ != nullptr) return describe_(signature);
  return fmt::format("{:x}/{}", signature.what, signature.size);
}

}  // namespace ddl
