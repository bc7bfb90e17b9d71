#include "ddl/core/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <fmt/format.h>

namespace ddl {

struct Hasher::State {
  XXH3_state_t xxh;
};

Hasher::Hasher() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->xxh); }
Hasher::~Hasher() = default;

Hasher& Hasher::add(std::span<const std::byte> bytes) {
  XXH3_128bits_update(&state_->xxh, bytes.data(), bytes.size());
  return *this;
}

Hasher& Hasher::add(std::string_view text) { return add(std::as_bytes(std::span(text))); }

std::string Hasher::digest() const {
  const auto value = XXH3_128bits_digest(&state_->xxh);
  return fmt::format("{:016x}{:016x}", value.high64, value.low64);
}

std::string digest(std::string_view text) { return Hasher().add(text).digest(); }

}  // namespace ddl
