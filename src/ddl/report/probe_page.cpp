// The page of `probe comm`.
#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "ddl/core/text.h"
#include "ddl/core/units.h"
#include "ddl/report/escape.h"
#include "ddl/report/format.h"
#include "ddl/report/page_parts.h"
#include "ddl/report/plot_style.h"
#include "ddl/report/report.h"

namespace ddl {
namespace {

/// What one plot shows: one collective over one transport between so many ranks.
using Key = std::tuple<std::string, int, std::string>;
using Rows = std::map<Key, std::vector<const Json*>>;

Rows rows_of(const Json& document) {
  Rows rows;
  for (const auto& row : document.at("results"))
    rows[{row.at("transport"), row.at("ranks"), row.at("collective")}].push_back(&row);
  return rows;
}

std::string size_of_row(const Json& row) { return to_string(Bytes{row.at("bytes").get<std::int64_t>()}); }

std::string micros(const Json& value) {
  if (!value.is_number()) return "-";
  const double us = value.get<double>();
  return fmt::format("{:.{}f}", us, us < 10 ? 2 : us < 100 ? 1 : 0);
}

Json log_axis(const std::string& field, const std::string& title) {
  Json made = channel(field, "quantitative", title);
  made["scale"] = {{"type", "log"}};
  return made;
}

Plot time_plot(const Key& key, const std::vector<const Json*>& rows) {
  const auto& [transport, ranks, collective] = key;
  Plot plot;
  plot.title = fmt::format("{} over {}, {} ranks: time against size", collective, transport, ranks);
  std::vector<std::string> names;
  Json values = Json::array(), limits = Json::array();
  std::map<std::int64_t, double> limit_of;
  for (const auto* row : rows) {
    const auto name = row->at("algorithm").get<std::string>();
    const auto bytes = row->at("bytes").get<std::int64_t>();
    if (bytes <= 0) continue;
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    const auto& time = row->at("time_us");
    values.push_back({{"bytes", bytes}, {"us", time.at("median")}, {"low", time.at("low")}, {"high", time.at("high")}, {"fit", row->at("fit_us")}, {"series", name},
                      {"said", fmt::format("{} us, fitted {} us", micros(time.at("median")), micros(row->at("fit_us")))}, {"size", size_of_row(*row)}});
    if (row->at("limit_us").is_number()) limit_of[bytes] = row->at("limit_us").get<double>();
  }
  if (values.empty()) return plot;
  for (const auto& [bytes, us] : limit_of) limits.push_back({{"bytes", bytes}, {"us", us}});
  std::vector<std::string> told;
  for (std::size_t i = 0; i < names.size(); ++i) {
    // Colours repeat after six; a shifted shape tells the second round from the first.
    plot.legend.push_back({names[i], series_colour(i), series_shape(i + i / 6)});
    double most = 0;
    for (const auto& value : values)
      if (value["series"] == names[i]) most = std::max(most, value["us"].get<double>());
    told.push_back(fmt::format("{}: up to {} us", names[i], in_figures(most)));
  }
  plot.description = plot.title + ". " + join(told, "; ") + ".";
  const auto series = plot.legend;
  const Json x = log_axis("bytes", "bytes"), y = log_axis("us", "us"), colour = colour_channel(series);
  Json layers = Json::array();
  if (!limits.empty()) {
    layers.push_back({{"data", {{"values", limits}}}, {"mark", {{"type", "line"}, {"strokeDash", {5, 4}}, {"strokeWidth", 1.5}, {"color", "var(--ideal)"}}},
                      {"encoding", {{"x", x}, {"y", y}}}});
    plot.legend.push_back({"what hardware and wire allow", "var(--ideal)", "dashes"});
  }
  layers.push_back({{"mark", {{"type", "line"}, {"strokeWidth", 1.5}}}, {"encoding", {{"x", x}, {"y", log_axis("fit", "us")}, {"color", colour}}}});
  layers.push_back({{"mark", {{"type", "rule"}, {"strokeWidth", 2}}},
                    {"encoding", {{"x", x}, {"y", log_axis("low", "us")}, {"y2", {{"field", "high"}}}, {"color", colour}}}});
  layers.push_back({{"mark", {{"type", "point"}, {"filled", true}, {"size", 60}, {"opacity", 1}}},
                    {"encoding", {{"x", x}, {"y", y}, {"color", colour}, {"shape", shape_channel(series)},
                                  {"tooltip", tooltip({{"series", "algorithm"}, {"size", "size"}, {"said", "time"}})}}}});
  plot.specification = plot_base(300, plot.description);
  plot.specification["data"] = {{"values", values}};
  plot.specification["layer"] = layers;
  plot.note = "Marks are medians with 95 % intervals; lines are the fitted costs.";
  return plot;
}

std::string cells(const std::vector<std::pair<std::string, bool>>& texts, const char* tag) {
  std::string out;
  for (const auto& [text, number] : texts) out += fmt::format("<{0}{1}>{2}</{0}>", tag, number ? " class=\"number\"" : "", html(text));
  return out;
}

std::string table(const std::string& id, const std::string& caption, const std::vector<std::pair<std::string, bool>>& head, const std::string& rows) {
  return fmt::format("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\"><table id=\"{1}\"><caption>{0}</caption>\n"
                     "<thead><tr>{2}</tr></thead>\n<tbody>\n{3}</tbody></table></div>\n",
                     html(caption), id, cells(head, "th"), rows);
}

std::string results(const Json& document) {
  std::string rows;
  for (const auto& row : document.at("results")) {
    const auto gigabytes = [&](const char* key) { return row.at(key).is_number() ? in_figures(row.at(key).get<double>() / 8) : std::string("-"); };
    const auto& time = row.at("time_us");
    rows += "<tr class=\"run\">" +
            cells({{row.at("transport"), false}, {fmt::format("{}", row.at("ranks").get<int>()), true}, {row.at("collective"), false}, {row.at("algorithm"), false},
                   {size_of_row(row), true}, {micros(time.at("median")), true}, {fmt::format("{} to {}", micros(time.at("low")), micros(time.at("high"))), true},
                   {gigabytes("algorithm_gbps"), true}, {gigabytes("bus_gbps"), true}, {micros(row.at("fit_us")), true}, {micros(row.at("limit_us")), true}}, "td") + "</tr>\n";
  }
  return table("results-table", "Medians over blocks of repetitions, the slowest rank's; bus bandwidth by the factors of nccl-tests.",
               {{"transport", false}, {"ranks", true}, {"collective", false}, {"algorithm", false}, {"size", true}, {"us", true}, {"95 % interval", true},
                {"algorithm GB/s", true}, {"bus GB/s", true}, {"fit us", true}, {"limit us", true}}, rows);
}

std::string costs(const Json& document) {
  std::string rows;
  for (const auto& piece : document.at("fit")) {
    const auto to = piece.at("to_bytes").get<std::uint64_t>();
    rows += "<tr>" + cells({{piece.at("transport"), false}, {fmt::format("{}", piece.at("ranks").get<int>()), true}, {piece.at("path"), false},
                            {to_string(Bytes{piece.at("from_bytes").get<std::int64_t>()}), true},
                            {to > (std::uint64_t{1} << 62) ? "up" : to_string(Bytes{static_cast<std::int64_t>(to)}), true}, {micros(piece.at("alpha_us")), true},
                            {micros(piece.at("overhead_us")), true}, {fmt::format("{:.3f}", piece.at("beta_ns_per_byte").get<double>()), true},
                            {fmt::format("{:.3f}", piece.at("copy_ns_per_byte").get<double>()), true},
                            {fmt::format("{:.3f}", piece.at("gamma_ns_per_byte").get<double>()), true},
                            {fmt::format("{:.3f}", piece.at("local_ns_per_byte").get<double>()), true}, {fmt::format("{:.1f} %", piece.at("mean_error_pct").get<double>()), true}}, "td") + "</tr>\n";
  }
  return table("fit-table", "time = alpha x rounds + overhead x messages + beta x bytes moved + copy x bytes handled + gamma x bytes reduced + local x bytes worked on, along the longest chain of rounds",
               {{"transport", false}, {"ranks", true}, {"path", false}, {"from", true}, {"to", true}, {"alpha us", true}, {"overhead us", true}, {"beta ns/byte", true}, {"copy ns/byte", true},
                {"gamma ns/byte", true}, {"local ns/byte", true}, {"mean error", true}}, rows);
}

std::string header(const Json& document) {
  const auto& environment = document.at("environment");
  const auto cpu = environment.contains("cpu") && environment["cpu"].is_object() ? environment["cpu"].value("model", std::string("an unknown processor")) : "an unknown processor";
  double best = 0;
  const Json* which = nullptr;
  for (const auto& row : document.at("results"))
    if (row.at("bus_gbps").is_number() && row.at("collective") == "all-reduce" && row.at("bus_gbps").get<double>() > best) {
      best = row.at("bus_gbps").get<double>();
      which = &row;
    }
  const auto title = which == nullptr ? std::string("What collectives cost here")
                                      : fmt::format("All-reduce reaches {} GB/s of bus bandwidth over {}, by {} at {}.", in_figures(best / 8), which->at("transport").get<std::string>(),
                                                    which->at("algorithm").get<std::string>(), size_of_row(*which));
  std::string failed;
  for (const auto& each : document.at("failed")) failed += "<p class=\"warning\">" + html(each.at("reason").get<std::string>()) + "</p>\n";
  return fmt::format("<header>\n<h1>{}</h1>\n<p>Measured by ddlbench probe comm on {}, {}.</p>\n{}</header>\n", html(title), html(cpu),
                     html(document.value("started", std::string())), failed);
}

}  // namespace

std::string render_probe(const Json& document) {
  Specifications plots;
  std::string figures;
  std::size_t number = 0;
  for (const auto& [key, rows] : rows_of(document))
    if (const auto plot = time_plot(key, rows); plot.present()) figures += figure_html(plot, fmt::format("probe-{}", number++), plots);
  if (!figures.empty()) figures = "<div class=\"figures\">\n" + figures + "</div>\n";
  return page_html(header(document),
                   {{{"time", "Time"}, section_html("time", "Time against size", "", figures)},
                    {{"costs", "Costs"}, section_html("costs", "Fitted costs", "", costs(document))},
                    {{"results", "Results"}, section_html("results", "Results", "", results(document))}}, plots);
}

}  // namespace ddl
