// What speed-ups are lost to, as bars.
#include <cmath>

#include <fmt/format.h>

#include "ddl/core/text.h"
#include "ddl/report/explanations.h"
#include "ddl/report/format.h"
#include "ddl/report/plot_data.h"
#include "ddl/report/plot_style.h"

namespace ddl {

Plot why_plot(const RunGroup& group, const std::vector<Json>& documents) {
  Plot plot;
  plot.title = group.short_title + ": why not faster";
  Json values = Json::array(), domain = Json::array(), range = Json::array(), ideals = Json::array();
  std::vector<std::string> told;
  std::vector<ExplanationView> views;
  const auto add = [&](const std::string& bar, const std::string& cause, double value, std::size_t order, const std::string& said) {
    if (std::abs(value) >= 0.001) values.push_back({{"bar", bar}, {"cause", cause}, {"order", order}, {"times", rounded(value)}, {"said", said}});
  };
  for (const auto* run : group.runs) {
    const auto view = explanation_of(documents, *run);
    // One worker loses nothing to others.
    if (!view || view->workers < 2) continue;
    views.push_back(*view);
    add(run->series, "reached", view->speedup, 0, in_times(view->speedup) + " reached");
    std::vector<std::string> lost;
    for (std::size_t i = 0; i < view->parts.size(); ++i) {
      const auto& part = view->parts[i];
      add(run->series, part.cause, part.lost, i + 1, fmt::format("{} {} {}", in_times(std::abs(part.lost)), part.lost < 0 ? "won by" : "lost to", part.words));
      if (part.lost >= 0.01) lost.push_back(fmt::format("{} lost to {}", in_times(part.lost), part.words));
    }
    add(run->series, "not explained", view->not_explained, view->parts.size() + 1, in_times(view->not_explained) + " not explained");
    ideals.push_back({{"bar", run->series}, {"times", view->workers}});
    told.push_back(fmt::format("{}: {} of {} reached{}{}", run->label, in_times(view->speedup), in_times(view->workers), lost.empty() ? "" : ", ", join(lost, ", ")));
  }
  if (values.empty()) return plot;
  std::vector<std::string> causes{"reached"};
  for (const auto& [cause, words] : losses_present(views)) causes.push_back(cause);
  causes.emplace_back("not explained");
  for (const auto& cause : causes) {
    domain.push_back(cause);
    range.push_back(loss_colour(cause));
  }
  plot.description = plot.title + ". " + join(told, "; ") + ".";
  plot.note = "The line is the ideal: as many times one worker's speed as there are workers. What is below 0 was won.";
  plot.specification = plot_base(height_of_rows(ideals.size()), plot.description);
  Json y = channel("bar", "nominal");
  y["sort"] = nullptr;
  y["axis"] = name_axis();
  Json x = channel("times", "quantitative", "times one worker's speed");
  x["stack"] = "zero";
  Json bars{{"data", {{"values", values}}}, {"mark", {{"type", "bar"}, {"stroke", "var(--surface)"}, {"strokeWidth", 1}}}};
  bars["encoding"] = {{"y", y},
                      {"x", x},
                      {"color", {{"field", "cause"}, {"type", "nominal"}, {"scale", {{"domain", domain}, {"range", range}}}, {"legend", nullptr}}},
                      {"order", {{"field", "order"}, {"type", "quantitative"}}},
                      {"tooltip", tooltip({{"bar", "run"}, {"cause", "cause"}, {"said", "of the ideal"}})}};
  Json ticks{{"data", {{"values", ideals}}}, {"mark", {{"type", "tick"}, {"color", "var(--text)"}, {"thickness", 2}}}};
  ticks["encoding"] = {{"y", y}, {"x", channel("times", "quantitative", "times one worker's speed")}};
  plot.specification["layer"] = Json::array({bars, ticks});
  return plot;
}

}  // namespace ddl
