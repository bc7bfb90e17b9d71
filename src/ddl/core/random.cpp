#include "ddl/core/random.h"

#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "ddl/core/clones.h"

namespace ddl {
namespace {

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ULL;

__extension__ using Wide = unsigned __int128;

DDL_INLINE std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

DDL_CLONES void fill_from(std::uint64_t key, std::uint64_t* draws, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) draws[i] = mix(key + kGolden * i);
}

}  // namespace

Random::Random(std::uint64_t seed, std::uint64_t stream) : key_(mix(mix(seed + kGolden) ^ (stream * kGolden + 1))) {}

std::uint64_t Random::bits() { return mix(key_ + kGolden * ++counter_); }

void Random::fill(std::span<std::uint64_t> draws) {
  fill_from(key_ + kGolden * (counter_ + 1), draws.data(), draws.size());
  counter_ += draws.size();
}

float Random::uniform() { return static_cast<float>(bits() >> 40) * 0x1.0p-24F; }

std::uint64_t Random::below(std::uint64_t limit) {
  return static_cast<std::uint64_t>((static_cast<Wide>(bits()) * limit) >> 64);
}

float Random::normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  // 1 - uniform lies in (0, 1], so the logarithm is finite.
  const float radius = std::sqrt(-2.0F * std::log(1.0F - uniform()));
  const float angle = 2.0F * std::numbers::pi_v<float> * uniform();
  spare_ = radius * std::sin(angle);
  has_spare_ = true;
  return radius * std::cos(angle);
}

std::vector<std::int64_t> permutation(std::int64_t n, std::uint64_t seed, std::uint64_t stream) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  Random random(seed, stream);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

}  // namespace ddl
