#include "ddl/report/precision.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

namespace ddl {
namespace {

/// The sign test: that so many of two equal precisions fall to one side is chance once in 32 times.
constexpr std::size_t kSeedsThatTell = 6;

/// Of one precision: accuracy, in percent, by what must be equal for two runs to be set side by side.
using Reached = std::map<std::string, double>;

std::map<std::string, Reached> by_precision(const RunGroup& group) {
  std::map<std::string, Reached> all;
  for (const auto* run : group.runs) {
    const auto precision = text_at(*run->record, {"config", "precision"});
    if (!run->ok() || !run->accuracy || precision.empty()) continue;
    const auto* seed = find_at(*run->record, {"config", "seed"});
    all[precision][fmt::format("{} {} {} {}", run->subject, run->workers, run->batch, seed ? seed->dump() : "")] = 100 * *run->accuracy;
  }
  return all;
}

double mean_of(const Reached& reached) {
  double sum = 0;
  for (const auto& [what, accuracy] : reached) sum += accuracy;
  return sum / static_cast<double>(reached.size());
}

std::string seed_by_seed(const std::vector<double>& differences) {
  const auto [low, high] = std::minmax_element(differences.begin(), differences.end());
  if (differences.size() == 1) return fmt::format("with the same seed it differs by {:+.2f} points: one seed does not tell them apart", *low);
  std::string verdict = differences.size() < kSeedsThatTell ? fmt::format("fewer than {} seeds do not tell them apart", kSeedsThatTell) : "not told apart";
  if (differences.size() >= kSeedsThatTell && *low > 0) verdict = "it is better with every seed";
  if (differences.size() >= kSeedsThatTell && *high < 0) verdict = "it is worse with every seed";
  return fmt::format("seed by seed it differs by {:+.2f} to {:+.2f} points: {}", *low, *high, verdict);
}

}  // namespace

std::vector<std::string> precision_findings(const RunGroup& group) {
  const auto all = by_precision(group);
  const auto reference = all.find("fp32");
  std::vector<std::string> sentences;
  if (reference == all.end()) return sentences;
  for (const auto& [precision, reached] : all) {
    if (precision == "fp32") continue;
    std::vector<double> differences;
    for (const auto& [what, accuracy] : reached)
      if (const auto same = reference->second.find(what); same != reference->second.end()) differences.push_back(accuracy - same->second);
    std::string sentence = fmt::format("{} in {} reaches {:.2f} %, fp32 {:.2f} % (means of {} and {} runs)", group.model, precision, mean_of(reached),
                                       mean_of(reference->second), reached.size(), reference->second.size());
    if (!differences.empty()) sentence += "; " + seed_by_seed(differences);
    sentences.push_back(sentence + ".");
  }
  return sentences;
}

}  // namespace ddl
