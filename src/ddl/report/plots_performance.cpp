// Plots of how fast: scaling, and the ledger.
#include <algorithm>
#include <map>
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

bool is_plotted(const RunView& run) { return run.ok() && run.throughput && run.workers > 0; }

/// A line of the scaling plot: runs that differ in the number of workers only.
struct Line {
  LegendEntry entry;
  int most_workers = 0;
  std::vector<const RunView*> points;
};

std::string line_name(const RunView& run) {
  const bool ours = run.subject.empty() || run.subject == "ddlbench";
  const std::string over = run.transport.empty() ? "" : "over " + run.transport;
  if (ours) return over.empty() ? "ddlbench" : over;
  return over.empty() ? run.subject : run.subject + " " + over;
}

/// Lines take colour and shape of their largest run, so that it looks the same in the other plots.
std::vector<Line> scaling_lines(const Group& group) {
  std::vector<Line> lines;
  for (const bool single : {false, true})
    for (std::size_t i = 0; i < group.runs.size(); ++i) {
      const RunView& run = *group.runs[i];
      if (!is_plotted(run) || (run.workers == 1) != single) continue;
      bool joined = false;
      for (auto& line : lines) {
        const auto& first = *line.points.front();
        // One worker has no transport: it begins every line of its subject.
        if (first.subject != run.subject || (!single && line.entry.label != line_name(run))) continue;
        line.points.push_back(&run);
        joined = true;
        if (run.workers > line.most_workers) {
          line.most_workers = run.workers;
          line.entry.colour = series_colour(i);
          line.entry.shape = series_shape(i);
        }
      }
      if (joined) continue;
      const std::string label = single ? (run.subject.empty() ? "one worker" : run.subject) : line_name(run);
      lines.push_back({{label, series_colour(i), series_shape(i)}, run.workers, {&run}});
    }
  return lines;
}

}  // namespace

Plot scaling_plot(const Group& group) {
  Plot plot;
  plot.title = group.short_title + ": throughput against workers";
  const auto lines = scaling_lines(group);
  std::set<int> counts;
  Json values = Json::array();
  std::vector<std::string> told;
  for (const auto& line : lines) {
    plot.legend.push_back(line.entry);
    for (const auto* run : line.points) {
      counts.insert(run->workers);
      values.push_back({{"workers", run->workers}, {"rate", rounded(run->throughput->median)},
                        {"low", rounded(run->throughput->low)}, {"high", rounded(run->throughput->high)},
                        {"series", line.entry.label}, {"run", run->label},
                        {"said", fmt::format("{} samples/s ({})", in_figures(run->throughput->median),
                                             run->speedup ? in_times(*run->speedup) : "no one-worker run")}});
      const auto sentence = fmt::format("{}: {} samples/s", run->series, in_figures(run->throughput->median));
      if (std::find(told.begin(), told.end(), sentence) == told.end()) told.push_back(sentence);
    }
  }
  if (counts.size() < 2) return plot;
  plot.description = plot.title + ". " + join(told, "; ") + ".";

  std::vector<LegendEntry> series;
  for (const auto& line : lines) series.push_back(line.entry);
  Json x = channel("workers", "quantitative", "workers");
  x["axis"] = {{"values", counts}, {"format", "d"}, {"grid", false}};
  x["scale"] = {{"domain", {0, static_cast<double>(*counts.rbegin()) * 1.08}}, {"nice", false}};
  Json y = channel("rate", "quantitative", "samples/s");
  y["scale"] = {{"zero", true}};
  Json layers = Json::array();
  const RunView* baseline = group.baseline("ddlbench");
  if (!baseline) baseline = group.baseline(lines.front().points.front()->subject);
  if (baseline) {
    const double one = baseline->throughput->median;
    const int most = *counts.rbegin();
    layers.push_back(
        {{"data",
          {{"values",
            Json::array({{{"workers", 0}, {"rate", 0}}, {{"workers", most}, {"rate", rounded(one * most)}}})}}},
         {"mark", {{"type", "line"}, {"strokeDash", {5, 4}}, {"strokeWidth", 1.5}, {"color", "var(--ideal)"}}},
         {"encoding", {{"x", x}, {"y", y}}}});
    plot.legend.push_back({"perfect scaling", "var(--ideal)", "dashes"});
  }
  const Json colour = colour_channel(series);
  layers.push_back(
      {{"mark", {{"type", "line"}, {"strokeWidth", 2}}}, {"encoding", {{"x", x}, {"y", y}, {"color", colour}}}});
  Json low = channel("low", "quantitative", "samples/s");
  layers.push_back({{"mark", {{"type", "rule"}, {"strokeWidth", 2}}},
                    {"encoding", {{"x", x}, {"y", low}, {"y2", {{"field", "high"}}}, {"color", colour}}}});
  for (const auto* end : {"low", "high"})
    layers.push_back({{"mark", {{"type", "tick"}, {"orient", "horizontal"}, {"size", 10}, {"thickness", 2}}},
                      {"encoding", {{"x", x}, {"y", channel(end, "quantitative", "samples/s")}, {"color", colour}}}});
  layers.push_back({{"mark", {{"type", "point"}, {"filled", true}, {"size", 70}, {"opacity", 1}}},
                    {"encoding", {{"x", x}, {"y", y}, {"color", colour}, {"shape", shape_channel(series)},
                                  {"tooltip", tooltip({{"run", "run"}, {"said", "throughput"}})}}}});
  plot.specification = plot_base(260, plot.description);
  plot.specification["data"] = {{"values", values}};
  plot.specification["layer"] = layers;
  plot.note = "Marks are medians; the bars through them are 95 % intervals, often smaller than the mark.";
  return plot;
}

std::vector<Cause> causes_present(const std::vector<Group>& groups) {
  std::vector<Cause> present;
  for (std::size_t i = 0; i < kCauses; ++i) {
    const auto cause = static_cast<Cause>(i);
    const auto took_time = [&](const RunView* run) { return run->mean_ms(cause) > 0; };
    if (std::any_of(groups.begin(), groups.end(), [&](const Group& group) {
          return std::any_of(group.runs.begin(), group.runs.end(), took_time);
        }))
      present.push_back(cause);
  }
  return present;
}

std::string cause_colour(Cause cause) { return fmt::format("var(--cause-{})", name(cause)); }

Plot ledger_plot(const Group& group) {
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
  y["axis"] = {{"labelLimit", 220}, {"ticks", false}, {"domain", false}};
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
