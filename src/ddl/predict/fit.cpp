#include "ddl/predict/fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "ddl/core/error.h"
#include "ddl/predict/least_squares.h"

namespace ddl {
namespace {

constexpr int kUnknowns = 6;
constexpr int kTurns = 6;
using Row = std::array<double, kUnknowns>;

Row row_of(const Counts& counts) { return {counts.rounds, counts.messages, counts.bytes, counts.handled, counts.reduced, counts.local}; }

/// `rows` are counts over seconds.
UnitCosts least_squares(const std::vector<Row>& rows) {
  const auto best = non_negative_least_squares(rows);
  return {best[0], best[1], best[2], best[3], best[4], best[5]};
}

UnitCosts fit_piece(const std::vector<const FitSample*>& samples) {
  // Something to begin with: half for rounds, half for bytes.
  UnitCosts costs;
  for (const auto* sample : samples) {
    costs.alpha = std::max(costs.alpha, sample->seconds / 4);
    costs.beta = std::max(costs.beta, sample->seconds / 4 / static_cast<double>(std::max<std::size_t>(1, sample->bytes)));
  }
  for (int turn = 0; turn < kTurns; ++turn) {
    std::vector<Row> rows;
    for (const auto* sample : samples) {
      auto row = row_of(price(*sample, costs).counts);
      for (auto& value : row) value /= sample->seconds;
      rows.push_back(row);
    }
    costs = least_squares(rows);
  }
  return costs;
}

/// What a size took, where all of its samples ask for the same: no row tells there what rounds cost from what bytes cost.
struct Alike {
  double bytes = 0;  ///< of the buffer
  double seconds = 0;
  Counts counts = {};
};

std::optional<Alike> alike(const std::vector<const FitSample*>& samples) {
  const auto counts = [](const FitSample* sample) { return price(*sample, {1e-6, 0, 1e-9}).counts; };
  Alike of{static_cast<double>(samples.front()->bytes), 0, counts(samples.front())};
  double once = 0, twice = 0;
  for (const auto* sample : samples) {
    if (!(counts(sample) == of.counts)) return std::nullopt;
    once += 1 / sample->seconds;
    twice += 1 / (sample->seconds * sample->seconds);
  }
  of.seconds = once / twice;  // the least relative squares of one constant
  return of;
}

/// Its rounds at `alpha` each or all that it took, the rest for its bytes.
UnitCosts costs_of(const Alike& size, double alpha) {
  UnitCosts costs;
  const auto& counts = size.counts;
  if (counts.bytes + counts.handled + counts.local == 0) alpha = std::numeric_limits<double>::infinity();
  if (counts.rounds > 0) costs.alpha = std::min(alpha, size.seconds / counts.rounds);
  const double rest = std::max(0.0, size.seconds - costs.alpha * counts.rounds);
  if (counts.bytes > 0) costs.beta = rest / counts.bytes;
  else if (counts.handled > 0) costs.copy = rest / counts.handled;
  else if (counts.local > 0) costs.local = rest / counts.local;
  return costs;
}

/// A round's cost where the smallest size does not tell it: where a line through it and a larger one begins that does not tell it either, of all such lines the flattest, since what disturbs takes time; of one size alone half of what it takes, if that is mostly to meet.
double start_of(const Alike& first, const std::vector<std::optional<Alike>>& sizes) {
  constexpr double meets = 16 << 10;
  if (first.counts.rounds == 0) return 0;
  std::optional<double> slope;
  for (const auto& size : sizes)
    if (size && size->bytes > first.bytes) slope = std::min(slope.value_or(std::numeric_limits<double>::infinity()), (size->seconds - first.seconds) / (size->bytes - first.bytes));
  const double start = slope ? first.seconds - *slope * first.bytes : first.bytes < meets ? first.seconds / 2 : 0;
  return std::clamp(start, 0.0, first.seconds) / first.counts.rounds;
}

/// Costs between those of two sizes: a share of the second's.
UnitCosts mixed(const UnitCosts& a, const UnitCosts& b, double share) {
  const auto mix = [&](double x, double y) { return (1 - share) * x + share * y; };
  return {mix(a.alpha, b.alpha), mix(a.overhead, b.overhead), mix(a.beta, b.beta), mix(a.copy, b.copy), mix(a.gamma, b.gamma), mix(a.local, b.local)};
}

/// Each size's own costs, from all of its samples, and between two sizes those of both, by how near each is along the logarithm, in pieces of a factor of about root two; below the first and above the last theirs.
WireCost by_size(const std::vector<FitSample>& samples, const std::vector<std::size_t>& sizes) {
  std::vector<std::vector<const FitSample*>> of(sizes.size());
  std::vector<std::optional<Alike>> same;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    for (const auto& sample : samples)
      if (sample.bytes == sizes[i]) of[i].push_back(&sample);
    same.push_back(alike(of[i]));
  }
  std::vector<std::pair<std::size_t, UnitCosts>> known;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (!same[i]) known.emplace_back(sizes[i], fit_piece(of[i]));
    else known.emplace_back(sizes[i], costs_of(*same[i], i > 0 ? known.front().second.alpha : start_of(*same[i], same)));
  }
  WireCost cost;
  const auto add = [&](std::size_t to, const UnitCosts& costs) {
    const auto from = cost.pieces.empty() ? 0 : cost.pieces.back().to;
    if (to > from) cost.pieces.push_back({from, to, costs});
  };
  for (std::size_t i = 0; i + 1 < known.size(); ++i) {
    const auto low = static_cast<double>(std::max<std::size_t>(1, known[i].first)), ratio = static_cast<double>(known[i + 1].first) / low;
    const int parts = std::max(1, static_cast<int>(std::ceil(2 * std::log2(ratio))));
    for (int part = 0; part < parts; ++part) add(static_cast<std::size_t>(low * std::pow(ratio, (part + 0.5) / parts)), mixed(known[i].second, known[i + 1].second, static_cast<double>(part) / parts));
  }
  add(std::numeric_limits<std::size_t>::max(), known.back().second);
  return cost;
}

}  // namespace

Price price(const FitSample& sample, const UnitCosts& costs) {
  if (sample.group) return price(*sample.group, costs);
  return {costs.seconds(sample.counts), sample.counts};
}

Fit fit(const std::vector<FitSample>& samples) {
  if (samples.empty()) throw Error(Code::invalid_argument, "[fit] no samples");
  std::set<std::size_t> distinct;
  for (const auto& sample : samples) {
    if (!(sample.seconds > 0)) throw Error(Code::invalid_argument, fmt::format("[fit] a time; got {} s, expected more than 0", sample.seconds));
    distinct.insert(sample.bytes);
  }
  const std::vector<std::size_t> sizes(distinct.begin(), distinct.end());
  Fit result;
  result.cost = by_size(samples, sizes);
  for (const auto& sample : samples) {
    result.seconds.push_back(price(sample, result.cost.at(sample.bytes)).seconds);
    result.error += std::abs(result.seconds.back() - sample.seconds) / sample.seconds / static_cast<double>(samples.size());
  }
  return result;
}

double held_out_error(const std::vector<FitSample>& samples) {
  double sum = 0;
  int judged = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    std::vector<FitSample> others;
    for (std::size_t k = 0; k < samples.size(); ++k)
      if (k != i && samples[k].bytes == samples[i].bytes) others.push_back(samples[k]);
    if (others.empty()) continue;
    sum += std::abs(price(samples[i], fit(others).cost.at(samples[i].bytes)).seconds / samples[i].seconds - 1);
    ++judged;
  }
  return judged == 0 ? -1 : sum / judged;
}

}  // namespace ddl
