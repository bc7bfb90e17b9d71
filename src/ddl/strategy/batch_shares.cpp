#include "ddl/strategy/batch_shares.h"

#include <algorithm>
#include <charconv>

#include "ddl/core/error.h"
#include "ddl/core/proportions.h"
#include "ddl/core/text.h"

namespace ddl {

std::vector<std::int64_t> batch_shares(const Spec& strategy) {
  const auto told = strategy.options.find("shares");
  if (strategy.name != "data" || told == strategy.options.end()) return {};
  constexpr std::int64_t kMost = 1'000'000;
  std::vector<std::int64_t> shares;
  for (const auto& word : split(told->second, '/')) {
    std::int64_t share = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), share);
    if (error != std::errc{} || end != word.data() + word.size() || share < 1 || share > kMost)
      throw Error(Code::invalid_argument, fmt::format("[data] shares; got '{}', expected whole numbers from 1 to {}, one for each worker, as 3/1", told->second, kMost));
    shares.push_back(share);
  }
  return shares;
}

std::int64_t samples_of_share(const Spec& strategy, std::int64_t batch, int shares, int share) {
  const auto proportions = batch_shares(strategy);
  if (static_cast<int>(proportions.size()) != shares) return (batch + shares - 1) / shares;
  const auto [begin, end] = proportional_part(batch, proportions, static_cast<std::size_t>(share));
  return end - begin;
}

std::int64_t most_samples(const Spec& strategy, std::int64_t batch, int shares) {
  if (batch_shares(strategy).empty()) return (batch + shares - 1) / shares;
  std::int64_t most = 0;
  for (int share = 0; share < shares; ++share) most = std::max(most, samples_of_share(strategy, batch, shares, share));
  return most;
}

}  // namespace ddl
