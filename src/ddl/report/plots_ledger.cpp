// Where a step's time goes, as bars.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "ddl/core/text.h"
#include "ddl/report/format.h"
#include "ddl/report/plot_data.h"
#include "ddl/report/plot_style.h"
#include "ddl/report/words.h"

namespace ddl {
namespace {

/// More bars of one run than this are not read one by one.
constexpr std::size_t kBarsOfARun = 16;

}  // namespace

std::vector<Cause> causes_present(const std::vector<RunGroup>& groups) {
  std::vector<Cause> present;
  for (std::size_t i = 0; i < kCauses; ++i) {
    const auto cause = static_cast<Cause>(i);
    const auto took_time = [&](const RunView* run) { return run->mean_ms(cause) > 0; };
    if (std::any_of(groups.begin(), groups.end(), [&](const RunGroup& group) {
          return std::any_of(group.runs.begin(), group.runs.end(), took_time);
        }))
      present.push_back(cause);
  }
  return present;
}

std::string cause_colour(Cause cause) { return fmt::format("var(--cause-{})", name(cause)); }

Plot ledger_plot(const RunGroup& group) {
  Plot plot;
  plot.title = group.short_title + ": where a step's time goes";
  Json values = Json::array(), domain = Json::array(), range = Json::array();
  for (std::size_t i = 0; i < kCauses; ++i) {
    domain.push_back(name(static_cast<Cause>(i)));
    range.push_back(cause_colour(static_cast<Cause>(i)));
  }
  std::set<std::string> bars;
  std::vector<std::string> told;
  for (const auto* run : group.runs) {
    if (!run->has_ledger()) continue;
    const std::size_t stride = (run->ranks.size() + kBarsOfARun - 1) / kBarsOfARun;
    if (stride > 1)
      plot.note = fmt::format("Of runs with more than {} workers some are shown, evenly picked; the table has all.",
                              kBarsOfARun);
    for (std::size_t place = 0; place < run->ranks.size(); place += stride) {
      const auto& rank = run->ranks[place];
      const std::string bar = run->ranks.size() > 1 ? fmt::format("{} · rank {}", run->series, rank.rank) : run->series;
      bars.insert(bar);
      for (std::size_t i = 0; i < kCauses; ++i) {
        const auto cause = static_cast<Cause>(i);
        // Rounding can leave a residual a little below nothing, which a bar cannot show.
        if (!(rank[cause] > 0)) continue;
        values.push_back({{"bar", bar}, {"cause", name(cause)}, {"order", i}, {"ms", rounded(rank[cause])},
                          {"said", fmt::format("{} ({} of the step)", in_ms(rank[cause]),
                                               in_percent(rank[cause] / rank.total_ms()))}});
      }
    }
    told.push_back(where_time_went(*run));
  }
  if (values.empty()) return plot;
  plot.description = plot.title + ". " + join(told, " ");
  plot.specification = plot_base(height_of_rows(bars.size()), plot.description);
  plot.specification["data"] = {{"values", values}};
  plot.specification["mark"] = {{"type", "bar"}, {"stroke", "var(--surface)"}, {"strokeWidth", 1}};
  Json y = channel("bar", "nominal");
  y["sort"] = nullptr;
  y["axis"] = name_axis();
  Json x = channel("ms", "quantitative", "ms per step, mean");
  x["stack"] = "zero";
  plot.specification["encoding"] = {{"y", y},
                                    {"x", x},
                                    {"color",
                                     {{"field", "cause"},
                                      {"type", "nominal"},
                                      {"scale", {{"domain", domain}, {"range", range}}},
                                      {"legend", nullptr}}},
                                    {"order", {{"field", "order"}, {"type", "quantitative"}}},
                                    {"tooltip", tooltip({{"bar", "worker"}, {"cause", "cause"}, {"said", "time"}})}};
  return plot;
}

}  // namespace ddl
