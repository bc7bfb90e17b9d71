// What was predicted, beside what was measured.
#include <fmt/format.h>

#include "ddl/core/text.h"
#include "ddl/report/plot_data.h"
#include "ddl/report/plot_style.h"
#include "ddl/report/predictions.h"

namespace ddl {

Plot prediction_plot(const RunGroup& group) {
  Plot plot;
  plot.title = group.short_title + ": step time, predicted and measured";
  plot.legend = {{"measured, median", series_colour(0), "circle"}, {"predicted before the run, with the interval that is to hold 90 %", series_colour(1), "diamond"}};
  Json values = Json::array();
  std::vector<std::string> told;
  for (const auto* run : group.runs) {
    const auto prediction = prediction_of(*run);
    if (!prediction) continue;
    values.push_back({{"run", run->series}, {"predicted", rounded(prediction->step)}, {"low", rounded(prediction->low)}, {"high", rounded(prediction->high)},
                      {"measured", rounded(prediction->measured)}, {"said", prediction_sentence(*run, *prediction)}});
    told.push_back(prediction_sentence(*run, *prediction));
  }
  if (values.empty()) return plot;
  plot.description = plot.title + ". " + join(told, "; ") + ".";
  plot.specification = plot_base(height_of_rows(values.size()), plot.description);
  plot.specification["data"] = {{"values", values}};
  Json y = channel("run", "nominal");
  y["sort"] = nullptr;
  y["axis"] = name_axis();
  const auto x = [](const char* field) {
    Json made = channel(field, "quantitative", "ms per step");
    made["scale"] = {{"zero", true}};
    return made;
  };
  const Json tips = tooltip({{"said", "step"}});
  Json layers = Json::array();
  layers.push_back({{"mark", {{"type", "rule"}, {"strokeWidth", 2}, {"color", plot.legend[1].colour}}}, {"encoding", {{"y", y}, {"x", x("low")}, {"x2", {{"field", "high"}}}}}});
  for (const auto& [field, entry] : {std::pair{"predicted", plot.legend[1]}, {"measured", plot.legend[0]}})
    layers.push_back({{"mark", {{"type", "point"}, {"filled", true}, {"size", 70}, {"opacity", 1}, {"shape", entry.shape}, {"color", entry.colour}}},
                      {"encoding", {{"y", y}, {"x", x(field)}, {"tooltip", tips}}}});
  plot.specification["layer"] = layers;
  return plot;
}

}  // namespace ddl
