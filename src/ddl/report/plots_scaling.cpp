// Throughput over workers.
#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <span>

#include <fmt/format.h>

#include "ddl/core/text.h"
#include "ddl/report/format.h"
#include "ddl/report/plot_data.h"
#include "ddl/report/plot_style.h"
#include "ddl/report/traits.h"

namespace ddl {
namespace {

bool is_plotted(const RunView& run) { return run.ok() && run.throughput && run.workers > 0; }

/// A line of the scaling plot: runs that differ in the number of workers only, and where batches stand together in the batch that goes with it.
struct Line {
  LegendEntry entry;
  int most_workers = 0;
  bool by_share = false;   ///< weak scaling: the same batch per worker, not the same batch
  std::vector<const RunView*> points;
  std::string way, way_alone;   ///< way_of() its points, with transports and without
};

bool of_transport(std::string_view key) { return key == "transport" || key == "collective" || key == "fabric"; }

/// All that a line's runs have in common, the batch apart; of one worker and of several alike where `transports` is off.
std::string way_of(const RunView& run, bool transports) {
  std::string way = run.subject + " " + run.likeness;
  for (const auto& [key, words] : run.traits)
    if (key != "batch" && (transports || !of_transport(key))) way += ", " + words;
  return way;
}

bool same_batch(const RunView& a, const RunView& b, bool by_share) { return by_share ? a.batch_per_worker == b.batch_per_worker : a.batch == b.batch; }

/// Ways whose batch grows with the workers.
std::set<std::string> weak_ways(const std::vector<const RunView*>& runs) {
  struct Seen {
    std::set<std::string> batches;
    std::set<std::optional<double>> shares;
  };
  std::map<std::string, Seen> seen;
  for (const auto* run : runs) {
    auto& [batches, shares] = seen[way_of(*run, true)];
    batches.insert(run->batch);
    if (run->baseline) batches.insert(run->baseline->batch);
    shares.insert(run->batch_per_worker);
  }
  std::set<std::string> ways;
  for (const auto& [way, of] : seen)
    if (of.batches.size() > 1 && of.shares.size() == 1) ways.insert(way);
  return ways;
}

/// `data over shm`, `torch-ddp`, `pipeline[micro=4] over tcp, bf16`: its strategy or package, and what else tells it from the other lines.
std::string line_name(const Line& line, const std::set<std::string>& told_apart) {
  const auto& run = *line.points.front();
  const bool ours = run.subject.empty() || run.subject == "ddlbench";
  std::string name = ours ? said(run, "strategy") : run.subject;
  if (name.empty()) name = "ddlbench";
  if (const auto wire = said(run, "transport"); !wire.empty()) name += " over " + wire;
  for (const auto& [key, words] : run.traits)
    if (told_apart.contains(key) && key != "strategy" && key != "transport" && key != "batch") name += ", " + words;
  if (line.by_share) return name + fmt::format(", {:g} samples a worker", *run.batch_per_worker);
  return told_apart.contains("batch") ? name + ", " + said(run, "batch") : name;
}

void add_point(Line& line, const RunView& run, std::size_t place) {
  line.points.push_back(&run);
  if (run.workers <= line.most_workers) return;
  line.most_workers = run.workers;
  // Lines take colour and shape of their largest run, so that it looks the same in the other plots.
  line.entry.colour = series_colour(place);
  line.entry.shape = series_shape(place);
}

/// One worker has no transport: it begins every line of its strategy, or that of speed-ups those that have none of their own.
void begin_lines(std::vector<Line>& lines, const RunGroup& group) {
  const auto several = static_cast<std::ptrdiff_t>(lines.size());
  for (std::size_t i = 0; i < group.runs.size(); ++i) {
    const auto& run = *group.runs[i];
    if (!is_plotted(run) || run.workers > 1) continue;
    const auto way = way_of(run, false);
    bool used = false;
    for (auto& line : std::span(lines).first(static_cast<std::size_t>(several))) {
      const auto& first = *line.points.front();
      if (line.way_alone != way || !same_batch(first, run, line.by_share)) continue;
      add_point(line, run, i);
      used = true;
    }
    used = used || std::any_of(lines.begin(), lines.begin() + several, [&](const Line& line) { return line.points.front()->baseline == &run; });
    if (!used) {
      lines.emplace_back();
      add_point(lines.back(), run, i);
    }
  }
  for (auto& line : std::span(lines).first(static_cast<std::size_t>(several))) {
    const auto* baseline = line.points.front()->baseline;
    const bool has_own = std::any_of(line.points.begin(), line.points.end(), [](const auto* run) { return run->workers == 1; });
    if (!has_own && std::find(group.runs.begin(), group.runs.end(), baseline) != group.runs.end()) line.points.push_back(baseline);
  }
}

std::vector<Line> scaling_lines(const RunGroup& group) {
  std::vector<const RunView*> plotted;
  std::copy_if(group.runs.begin(), group.runs.end(), std::back_inserter(plotted), [](const auto* run) { return is_plotted(*run) && run->workers > 1; });
  const auto weak = weak_ways(plotted);
  std::vector<Line> lines;
  for (std::size_t i = 0; i < group.runs.size(); ++i) {
    const auto& run = *group.runs[i];
    if (!is_plotted(run) || run.workers == 1) continue;
    const auto way = way_of(run, true);
    auto line = std::find_if(lines.begin(), lines.end(), [&](const Line& other) {
      return other.way == way && same_batch(*other.points.front(), run, other.by_share);
    });
    if (line == lines.end()) {
      line = lines.emplace(lines.end());
      line->by_share = weak.contains(way);
      line->way = way;
      line->way_alone = way_of(run, false);
    }
    add_point(*line, run, i);
  }
  begin_lines(lines, group);
  const auto told_apart = differing(group.runs);
  for (auto& line : lines) line.entry.label = line_name(line, told_apart);
  return lines;
}

}  // namespace

Plot scaling_plot(const RunGroup& group) {
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
  plot.note = "Marks are medians; the bars through them are 95 % intervals, often smaller than the mark. A line without one worker of its own begins with the run that "
              "speed-ups are over.";
  return plot;
}

}  // namespace ddl
