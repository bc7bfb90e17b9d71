#include "ddl/report/plot_style.h"

#include <array>

#include <fmt/format.h>

namespace ddl {
namespace {

// Filled shapes that Vega draws and Unicode has, so that legends in HTML show the same.
constexpr std::array kShapes{"circle", "square", "triangle-up", "diamond", "triangle-down", "cross"};

Json scale_over(const std::vector<LegendEntry>& legend, std::string LegendEntry::*part) {
  Json domain = Json::array(), range = Json::array();
  for (const auto& entry : legend) {
    domain.push_back(entry.label);
    range.push_back(entry.*part);
  }
  return {{"field", "series"},
          {"type", "nominal"},
          {"scale", {{"domain", domain}, {"range", range}}},
          {"legend", nullptr}};
}

}  // namespace

std::string series_colour(std::size_t place) { return fmt::format("var(--series-{})", place % kShapes.size() + 1); }
std::string series_shape(std::size_t place) { return kShapes[(place + place / kShapes.size()) % kShapes.size()]; }

LegendEntry series_entry(const RunView& run, std::size_t place) {
  return {run.series, series_colour(place), series_shape(place)};
}

Json name_axis() { return {{"labelLimit", {{"expr", "max(160, 0.5 * containerSize()[0])"}}}, {"ticks", false}, {"domain", false}}; }

std::size_t height_of_rows(std::size_t rows) { return 12 + (rows > 12 ? 20 : 30) * rows; }

Json plot_base(std::size_t height, const std::string& description) {
  return {{"description", description},
          {"width", "container"},
          {"height", height},
          {"autosize", {{"type", "fit-x"}, {"contains", "padding"}}}};
}

Json colour_channel(const std::vector<LegendEntry>& legend) { return scale_over(legend, &LegendEntry::colour); }
Json shape_channel(const std::vector<LegendEntry>& legend) { return scale_over(legend, &LegendEntry::shape); }

Json channel(const std::string& field, const std::string& type, const Json& title) {
  return {{"field", field}, {"type", type}, {"title", title}};
}

Json tooltip(const std::vector<std::pair<std::string, std::string>>& fields_and_titles) {
  Json fields = Json::array();
  for (const auto& [field, title] : fields_and_titles) fields.push_back({{"field", field}, {"title", title}});
  return fields;
}

}  // namespace ddl
