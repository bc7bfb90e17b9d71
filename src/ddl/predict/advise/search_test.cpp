#include "ddl/predict/advise/search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "ddl/nn/builtin.h"
#include "ddl/predict/datasheet/library.h"
#include "ddl/predict/datasheet/machine_source.h"
#include "ddl/predict/predict_step.h"
#include "ddl/strategy/builtin.h"
#include "ddl/core/error.h"

namespace ddl {
namespace {

const std::function<bool()> kForEver = [] { return true; };

ChoiceAxis axis_of(const std::string& name, std::size_t values, bool in_order) {
  ChoiceAxis axis{name, {}};
  for (std::size_t i = 0; i < values; ++i) {
    axis.values.push_back({{{name, std::to_string(i)}}});
    if (!in_order) continue;
    axis.near.emplace_back();
    if (i > 0) axis.near[i].push_back(i - 1);
    if (i + 1 < values) axis.near[i].push_back(i + 1);
  }
  return axis;
}

TEST(Search, LooksAtEverythingOnce) {
  const std::vector<StrategyFamily> families{{{"a", {}}, 1, {axis_of("x", 5, true), axis_of("y", 4, false)}}, {{"b", {}}, 1, {axis_of("z", 7, true)}}};
  std::set<std::pair<std::size_t, std::vector<std::size_t>>> seen;
  const auto found = search(families, [&](const Candidate& candidate) -> std::optional<Worth> {
    EXPECT_TRUE(seen.emplace(candidate.family, candidate.at).second);
    // Some cannot be planned: it goes on behind them.
    if (candidate.family == 1 && candidate.at[0] % 2 == 1) return std::nullopt;
    return Worth{1.0, 1.0, candidate.at[0] != 2};
  }, kForEver);
  EXPECT_EQ(found.looked.size(), 27u);
  EXPECT_EQ(found.not_looked, 0);
}

// A hill of one top among 40,000: found by looking at few.
TEST(Search, FindsTheBestLongBeforeItHasSeenAll) {
  const std::vector<StrategyFamily> families{{{"a", {}}, 1, {axis_of("x", 200, true), axis_of("y", 200, true)}}};
  int looks = 0;
  double best = 1e9;
  const auto found = search(families, [&](const Candidate& candidate) -> std::optional<Worth> {
    ++looks;
    const double x = static_cast<double>(candidate.at[0]) - 150, y = static_cast<double>(candidate.at[1]) - 120;
    best = std::min(best, 1 + x * x + y * y);
    return Worth{1 + x * x + y * y, 1, true};
  }, [&] { return looks < 2000; });
  EXPECT_EQ(best, 1);
  EXPECT_EQ(looks, 2000);
  EXPECT_EQ(found.not_looked, 38'000);
}

// The optimum of a real space, all of it priced.
TEST(Search, FindsWhatBruteForceFinds) {
  const auto graph = builtin_models().at("mlp").make(parse_spec("mlp[layers=8]"), {1, 28, 28, 10});
  const auto source = datasheet_source(find_machine("v100-16gb"), "fp32", 1);
  const auto strategies = builtin_strategies();
  const auto families = families_of({graph, 4, 64, 4, 8, false});
  const auto worth = [&](const Candidate& candidate) -> std::optional<Worth> {
    const auto& family = families[candidate.family];
    const auto spec = family.spec(candidate.at);
    StrategyInput input{graph, 4, 64, 4, spec};
    if (const auto keys = family.keys(candidate.at); keys.contains("accumulate")) input.micro_batches = std::stoi(keys.at("accumulate"));
    try {
      const auto plan = strategies.at(spec.name).make(input);
      if (!plan.split.empty()) return std::nullopt;
      const auto step = predict_step({plan, graph, spec, 64, *source, kDatasheetSigma, Engine::closed});
      return Worth{step.seconds, static_cast<double>(step.most.total()), true};
    } catch (const Error&) {
      return std::nullopt;
    }
  };
  double best = 1e9;
  std::size_t all = 0;
  for (std::size_t f = 0; f < families.size(); ++f) {
    std::vector<std::size_t> at(families[f].axes.size(), 0);
    for (bool more = true; more;) {
      ++all;
      if (const auto found = worth({f, at})) best = std::min(best, found->seconds);
      more = false;
      for (std::size_t axis = 0; axis < at.size() && !more; ++axis) {
        more = ++at[axis] < families[f].axes[axis].values.size();
        if (!more) at[axis] = 0;
      }
    }
  }
  std::size_t looks = 0;
  const auto found = search(families, [&](const Candidate& candidate) { return ++looks, worth(candidate); }, [&] { return looks < all / 3; });
  double searched = 1e9;
  for (const auto& each : found.looked)
    if (each.worth) searched = std::min(searched, each.worth->seconds);
  EXPECT_EQ(searched, best) << "of " << all;
  EXPECT_EQ(found.not_looked, static_cast<double>(all - found.looked.size()));
}

TEST(ParetoFront, IsWhatNothingBeats) {
  const std::vector<Worth> all{{1, 10}, {2, 5}, {3, 5}, {2, 7}, {4, 1}, {0.5, 1, false}, {1, 12}};
  EXPECT_EQ(pareto_front(all), (std::vector<std::size_t>{0, 1, 4}));
  EXPECT_TRUE(pareto_front({{1, 1, false}}).empty());
  EXPECT_TRUE(pareto_front({}).empty());
  // Two that are the same: one is told.
  EXPECT_EQ(pareto_front({{1, 1}, {1, 1}}), (std::vector<std::size_t>{0}));
}

}  // namespace
}  // namespace ddl
