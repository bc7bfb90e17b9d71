#pragma once

#include "ddl/report/plots.h"

namespace ddl {

/// The axis of plots with a named row for each run: a name may take half of the plot, since its end is what tells rows apart.
Json name_axis();

/// The runs of a group keep their colour and shape in all its plots. Either repeats after six, both together after 36.
std::string series_colour(std::size_t place);
std::string series_shape(std::size_t place);
LegendEntry series_entry(const RunView& run, std::size_t place);

/// What every plot shares: as wide as the page lets it, `height` in pixels.
Json plot_base(std::size_t height, const std::string& description);
/// The height of a plot with a row for each of `rows` names. Vega-Lite's own way, {"step": …}, warns in the console.
std::size_t height_of_rows(std::size_t rows);
/// A colour or shape channel over the legend's entries; the legend itself stands in HTML, where it wraps.
Json colour_channel(const std::vector<LegendEntry>& legend);
Json shape_channel(const std::vector<LegendEntry>& legend);
Json channel(const std::string& field, const std::string& type, const Json& title = nullptr);
Json tooltip(const std::vector<std::pair<std::string, std::string>>& fields_and_titles);

}  // namespace ddl
