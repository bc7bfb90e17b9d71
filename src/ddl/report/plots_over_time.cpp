// Plots over steps and epochs: loss, accuracy, step times.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "ddl/core/text.h"
#include "ddl/report/format.h"
#include "ddl/report/plot_data.h"
#include "ddl/report/plot_style.h"

namespace ddl {
namespace {

constexpr std::size_t kCurvePoints = 150;
constexpr std::size_t kSeriesPoints = 240;
constexpr double kTicksOneByOne = 12;

struct Curve {
  std::vector<double> at, value;
};

Json line_plot(const Plot& plot, const Json& values, const std::string& x_title, const std::string& y_title, bool zero,
               bool marks, const std::string& y_format) {
  Json base = plot_base(240, plot.description);
  Json x = channel("at", "quantitative", x_title);
  x["axis"] = {{"format", ",d"}, {"grid", false}, {"tickMinStep", 1}};
  // Vega would put ticks between two epochs, and print both with the same whole number.
  double last = 0;
  for (const auto& value : values) last = std::max(last, value["at"].get<double>());
  if (last <= kTicksOneByOne)
    for (int tick = 0; tick <= static_cast<int>(last); ++tick) x["axis"]["values"].push_back(tick);
  x["scale"] = {{"zero", false}, {"nice", false}};
  Json y = channel("value", "quantitative", y_title);
  y["scale"] = {{"zero", zero}};
  if (!y_format.empty()) y["axis"] = {{"format", y_format}};
  const Json colour = colour_channel(plot.legend);
  const Json tips = tooltip({{"series", "run"}, {"at", x_title}, {"said", y_title}});
  base["data"] = {{"values", values}};
  base["layer"] = Json::array({{{"mark", {{"type", "line"}, {"strokeWidth", 2}, {"opacity", 0.85}}},
                                {"encoding", {{"x", x}, {"y", y}, {"color", colour}}}}});
  // Without marks the points are there for the pointer only.
  Json points = {{"mark", {{"type", "point"}, {"filled", true}, {"size", 45}, {"opacity", marks ? 1 : 0}}},
                 {"encoding", {{"x", x}, {"y", y}, {"color", colour}, {"tooltip", tips}}}};
  if (marks) points["encoding"]["shape"] = shape_channel(plot.legend);
  base["layer"].push_back(points);
  return base;
}

void show_as_lines(Plot& plot) {
  for (auto& entry : plot.legend) entry.shape = "line";
}

Curve epochs_of(const RunView& run, std::string_view what) {
  Curve curve;
  curve.value = numbers_at(*run.record, {what, "epochs"});
  for (std::size_t i = 0; i < curve.value.size(); ++i) curve.at.push_back(static_cast<double>(i + 1));
  return curve;
}

Curve steps_of(const RunView& run) {
  Curve curve{numbers_at(*run.record, {"loss", "steps", "at"}), numbers_at(*run.record, {"loss", "steps", "value"})};
  const std::size_t size = std::min(curve.at.size(), curve.value.size());
  curve.at.resize(size);
  curve.value.resize(size);
  return curve;
}

/// Adds a run's curve, thinned to medians of neighbours; says whether there was anything to add.
bool add_curve(Plot& plot, Json& values, std::size_t place, const RunView& run, const Curve& curve, bool as_percent) {
  bool added = false;
  for (const auto& bucket : thin(curve.value, kCurvePoints)) {
    const double at = curve.at[static_cast<std::size_t>(bucket.at)];
    if (!std::isfinite(at)) continue;
    values.push_back(
        {{"series", run.series},
         {"at", at},
         {"value", bucket.median},
         {"said", as_percent ? fmt::format("{:.2f} %", 100 * bucket.median) : fmt::format("{:.4g}", bucket.median)}});
    added = true;
  }
  if (added) plot.legend.push_back(series_entry(run, place));
  return added;
}

std::vector<double> step_samples(const RunView& run) {
  auto samples = numbers_at(*run.record, {"step_ms", "samples"});
  if (samples.empty())
    if (const auto* ranks = find_at(*run.record, {"ranks"}); ranks && ranks->is_array() && !ranks->empty())
      samples = numbers_at(ranks->front(), {"step_ms", "samples"});
  return samples;
}

std::size_t warm_up_steps(const RunView& run, std::size_t all) {
  const double steps = number_at(*run.record, {"samples", "warmup_steps"}).value_or(0);
  // A run that ended during its warm-up still shows what it did.
  return steps > 0 && steps < static_cast<double>(all) ? static_cast<std::size_t>(steps) : 0;
}

}  // namespace

Plot loss_plot(const RunGroup& group) {
  Plot plot;
  plot.title = group.short_title + ": training loss";
  const bool by_step = std::any_of(group.runs.begin(), group.runs.end(),
                                   [](const auto* run) { return steps_of(*run).at.size() > 1; });
  Json values = Json::array();
  std::vector<std::string> told;
  bool thinned = false;
  for (std::size_t i = 0; i < group.runs.size(); ++i) {
    const RunView& run = *group.runs[i];
    const Curve curve = by_step ? steps_of(run) : epochs_of(run, "loss");
    thinned = thinned || curve.at.size() > kCurvePoints;
    if (!add_curve(plot, values, i, run, curve, false)) continue;
    if (const auto last = number_at(*run.record, {"loss", "final"}))
      told.push_back(fmt::format("{} ends at {:.3g}", run.series, *last));
  }
  if (values.empty()) return plot;
  plot.description = plot.title + ". " + join(told, "; ") + ".";
  plot.note = thinned ? "Each point is the median of neighbouring steps." : "";
  const bool marks = values.size() <= 40 * plot.legend.size();
  if (!marks) show_as_lines(plot);
  plot.specification = line_plot(plot, values, by_step ? "step" : "epoch", "training loss", true, marks, "");
  return plot;
}

Plot accuracy_plot(const RunGroup& group) {
  Plot plot;
  plot.title = group.short_title + ": test accuracy";
  Json values = Json::array();
  std::vector<std::string> told;
  for (std::size_t i = 0; i < group.runs.size(); ++i) {
    const RunView& run = *group.runs[i];
    if (add_curve(plot, values, i, run, epochs_of(run, "accuracy"), true) && run.accuracy)
      told.push_back(fmt::format("{} ends at {:.1f} %", run.series, 100 * *run.accuracy));
  }
  if (values.size() < 2 * plot.legend.size() || values.empty()) return plot;
  plot.description = plot.title + ". " + join(told, "; ") + ".";
  plot.specification = line_plot(plot, values, "epoch", "test accuracy", false, true, ".0%");
  return plot;
}

Plot step_series_plot(const RunGroup& group) {
  Plot plot;
  plot.title = group.short_title + ": step times in order";
  Json values = Json::array();
  std::size_t longest = 1;
  double top = 0;
  for (std::size_t i = 0; i < group.runs.size(); ++i) {
    const RunView& run = *group.runs[i];
    const auto samples = step_samples(run);
    const auto buckets = thin(samples, kSeriesPoints, warm_up_steps(run, samples.size()));
    if (buckets.size() < 2) continue;
    std::vector<double> highs;
    for (const auto& bucket : buckets) {
      values.push_back({{"series", run.series}, {"at", bucket.at}, {"value", bucket.median}, {"low", bucket.low},
                        {"high", bucket.high}, {"said", in_ms(bucket.median)}});
      longest = std::max(longest, bucket.count);
      highs.push_back(bucket.high);
    }
    top = std::max(top, quantile(highs, 0.98) * 1.15);
    plot.legend.push_back(series_entry(run, i));
  }
  if (values.empty()) return plot;
  plot.description = plot.title + ".";
  plot.note = longest > 1 ? fmt::format("Lines are medians of up to {} neighbouring steps, bands their 5th to 95th "
                                        "percentile. Warm-up is left out and rare spikes are cut off; every step is in "
                                        "the records below.", longest)
                          : "Every measured step; warm-up is left out.";
  show_as_lines(plot);
  Json spec = line_plot(plot, values, "step", "ms", true, false, "");
  for (auto& layer : spec["layer"]) {
    layer["mark"]["clip"] = true;
    layer["encoding"]["y"]["scale"] = {{"domain", {0, rounded(top)}}, {"nice", true}};
  }
  spec["layer"][0]["mark"]["strokeWidth"] = 1.5;
  if (longest > 1) {
    Json band = spec["layer"][0];
    band["mark"] = {{"type", "area"}, {"opacity", 0.18}, {"clip", true}};
    band["encoding"]["y"]["field"] = "low";
    band["encoding"]["y2"] = {{"field", "high"}};
    spec["layer"].insert(spec["layer"].begin(), band);
  }
  plot.specification = spec;
  return plot;
}

Plot step_distribution_plot(const RunGroup& group) {
  Plot plot;
  plot.title = group.short_title + ": spread of step times";
  Json values = Json::array();
  std::vector<std::string> told;
  for (std::size_t i = 0; i < group.runs.size(); ++i) {
    const RunView& run = *group.runs[i];
    auto samples = step_samples(run);
    samples.erase(samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(warm_up_steps(run, samples.size())));
    std::erase_if(samples, [](double value) { return !std::isfinite(value); });
    if (samples.size() < 5) continue;
    const auto at = [&](double q) { return rounded(quantile(samples, q)); };
    values.push_back({{"series", run.series}, {"p1", at(0.01)}, {"p25", at(0.25)}, {"p50", at(0.5)}, {"p75", at(0.75)},
                      {"p99", at(0.99)}, {"n", samples.size()}});
    plot.legend.push_back(series_entry(run, i));
    told.push_back(fmt::format("{}: median {}, half of all within {} to {}, 99 of 100 below {}", run.series,
                               in_ms(at(0.5)), in_figures(at(0.25)), in_ms(at(0.75)), in_ms(at(0.99))));
  }
  if (values.empty()) return plot;
  plot.description = plot.title + ". " + join(told, "; ") + ".";
  plot.note = "The line spans the 1st to the 99th percentile, the box the middle half; the tick is the median.";
  Json y = channel("series", "nominal");
  y["sort"] = nullptr;
  y["axis"] = name_axis();
  const auto x = [](const std::string& field) {
    Json made = channel(field, "quantitative", "ms per step");
    // The spread is the point here; the other plots begin at nothing.
    made["scale"] = {{"zero", false}};
    return made;
  };
  const Json colour = colour_channel(plot.legend);
  const Json tips = tooltip({{"series", "run"}, {"p1", "1st percentile, ms"}, {"p25", "25th"}, {"p50", "median"},
                             {"p75", "75th"}, {"p99", "99th"}, {"n", "steps"}});
  plot.specification = plot_base(height_of_rows(values.size()), plot.description);
  plot.specification["data"] = {{"values", values}};
  plot.specification["layer"] = Json::array(
      {{{"mark", {{"type", "rule"}, {"strokeWidth", 2}}},
        {"encoding", {{"y", y}, {"x", x("p1")}, {"x2", {{"field", "p99"}}}, {"color", colour}, {"tooltip", tips}}}},
       {{"mark", {{"type", "bar"}, {"size", 14}, {"opacity", 1}}},
        {"encoding", {{"y", y}, {"x", x("p25")}, {"x2", {{"field", "p75"}}}, {"color", colour}, {"tooltip", tips}}}},
       {{"mark", {{"type", "tick"}, {"orient", "vertical"}, {"size", 18}, {"thickness", 2}, {"color", "var(--text)"}}},
        {"encoding", {{"y", y}, {"x", x("p50")}, {"tooltip", tips}}}}});
  plot.legend.clear();   // every row carries its name
  return plot;
}

}  // namespace ddl
