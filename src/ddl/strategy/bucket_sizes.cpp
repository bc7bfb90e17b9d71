#include "ddl/strategy/bucket_sizes.h"

#include "ddl/core/error.h"
#include "ddl/strategy/common.h"

namespace ddl {

bool tunes_buckets(const Spec& strategy) {
  const auto found = strategy.options.find("bucket");
  return strategy.name == "data" && found != strategy.options.end() && found->second == "auto";
}

std::vector<std::int64_t> bucket_sizes(std::int64_t gradient_bytes) {
  constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  std::vector<std::int64_t> sizes;
  for (const auto size : {kMiB, 6 * kMiB, kBucketCap, 100 * kMiB})
    if (size < gradient_bytes) sizes.push_back(size);
  sizes.push_back(gradient_bytes);
  return sizes;
}

Spec with_bucket(Spec strategy, std::int64_t bytes) {
  strategy.options["bucket"] = fmt::format("{}B", bytes);
  return strategy;
}

}  // namespace ddl
