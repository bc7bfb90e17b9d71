#include "ddl/report/staleness.h"

#include <algorithm>

#include <fmt/format.h>

#include "ddl/core/text.h"
#include "ddl/report/format.h"

namespace ddl {
namespace {

/// Pairs of how stale and how many.
void add(const Json* pairs, Staleness::Counts& counts) {
  if (pairs == nullptr || !pairs->is_array()) return;
  for (const auto& pair : *pairs)
    if (pair.is_array() && pair.size() == 2 && pair[0].is_number_integer() && pair[1].is_number_integer()) counts[pair[0].get<std::int64_t>()] += pair[1].get<std::int64_t>();
}

std::int64_t total(const Staleness::Counts& counts) {
  std::int64_t sum = 0;
  for (const auto& [stale, count] : counts) sum += count;
  return sum;
}

std::string distribution(const Staleness::Counts& counts, std::string_view what) {
  std::vector<std::string> parts;
  for (const auto& range : shares_of(counts)) parts.push_back(fmt::format("{}{} for {:.1f} %", in_words(range), parts.empty() ? fmt::format(" {}", what) : "", 100 * range.share));
  double sum = 0;
  for (const auto& [stale, count] : counts) sum += static_cast<double>(stale) * static_cast<double>(count);
  return fmt::format("{} (mean {:.2f}, at most {})", join(parts, ", "), sum / static_cast<double>(total(counts)), counts.rbegin()->first);
}

}  // namespace

std::optional<Staleness> staleness_of(const RunView& run) {
  Staleness all;
  const auto* ranks = run.record == nullptr ? nullptr : find_at(*run.record, {"ranks"});
  if (ranks == nullptr || !ranks->is_array()) return std::nullopt;
  for (const auto& rank : *ranks) {
    const auto* own = rank.is_object() ? find_at(rank, {"staleness"}) : nullptr;
    if (own == nullptr || !own->is_object()) continue;
    ++all.servers;
    add(find_at(*own, {"by_updates"}), all.by_updates);
    add(find_at(*own, {"by_steps"}), all.by_steps);
  }
  if (total(all.by_updates) <= 0 || total(all.by_steps) <= 0) return std::nullopt;
  return all;
}

std::vector<StalenessShare> shares_of(const Staleness::Counts& counts) {
  std::vector<StalenessShare> shares;
  const auto all = static_cast<double>(total(counts));
  for (const auto& [stale, count] : counts) {
    std::int64_t first = stale, last = stale;
    for (std::int64_t power = 4; power <= stale; power *= 2) {
      first = power;
      last = 2 * power - 1;
    }
    if (shares.empty() || shares.back().first != first) shares.push_back({first, last, 0});
    shares.back().share += static_cast<double>(count) / all;
  }
  return shares;
}

std::string in_words(const StalenessShare& range) { return range.first == range.last ? fmt::format("{}", range.first) : fmt::format("{} to {}", range.first, range.last); }

std::string staleness_sentence(const RunView& run, const Staleness& staleness) {
  return fmt::format("{}: of {} that {} of parameters applied as they came, there lay between the parameters and the gradient {}; the slowest worker was behind by {}.", run.label,
                     counted(total(staleness.by_updates), "gradient"), counted(staleness.servers, "server"), distribution(staleness.by_updates, "updates by others"),
                     distribution(staleness.by_steps, "steps"));
}

}  // namespace ddl
