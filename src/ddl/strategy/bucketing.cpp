#include "ddl/strategy/bucketing.h"

#include <algorithm>

#include "ddl/core/error.h"
#include "ddl/core/options.h"
#include "ddl/strategy/common.h"

namespace ddl {

bool tunes_buckets(const Spec& strategy) {
  const auto found = strategy.options.find("bucket");
  return strategy.name == "data" && found != strategy.options.end() && found->second == "auto";
}

bool overlaps_backward(const Spec& data) {
  const auto threads = data.options.find("in-process");
  return switch_option(data, "overlap", threads == data.options.end() || threads->second == "off");
}

std::vector<Bucketing> bucketings(const Spec& strategy, std::int64_t gradient_bytes) {
  constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  const bool overlap = overlaps_backward(strategy);
  const Bucketing standard{std::min(gradient_bytes, kBucketCap), overlap};
  std::vector<Bucketing> found{standard};
  for (const auto size : {kMiB, 6 * kMiB, kBucketCap, 100 * kMiB, gradient_bytes})
    if (size != standard.bytes && size <= gradient_bytes) found.push_back({size, overlap});
  found.erase(std::unique(found.begin(), found.end()), found.end());
  if (strategy.options.count("overlap") == 0) found.push_back({standard.bytes, !overlap});
  return found;
}

Spec with_bucketing(Spec strategy, const Bucketing& bucketing) {
  strategy.options["bucket"] = fmt::format("{}B", bucketing.bytes);
  strategy.options["overlap"] = bucketing.overlap ? "on" : "off";
  return strategy;
}

}  // namespace ddl
