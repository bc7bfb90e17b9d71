// The parts of the page that show results: the table and the plots.
#include <algorithm>

#include <fmt/format.h>

#include "ddl/core/text.h"

#include "ddl/report/escape.h"
#include "ddl/report/format.h"
#include "ddl/report/page_parts.h"
#include "ddl/report/predictions.h"
#include "ddl/report/table.h"
#include "ddl/report/words.h"

namespace ddl {
namespace {

/// Of a run, in characters, for a figure that is half as wide as the page.
constexpr std::size_t kShortName = 30;

std::string glyph(const std::string& shape) {
  if (shape == "square") return "■";
  if (shape == "triangle-up") return "▲";
  if (shape == "triangle-down") return "▼";
  if (shape == "diamond") return "◆";
  if (shape == "cross") return "✚";
  if (shape == "line") return "━━";
  if (shape == "dashes") return "╌╌";
  return "●";
}

std::string legend_html(const std::vector<LegendEntry>& legend) {
  if (legend.empty()) return "";
  std::string out = "<ul class=\"legend\">";
  for (const auto& [label, colour, shape] : legend)
    out += fmt::format("<li><span aria-hidden=\"true\" style=\"color:{}\">{}</span> {}</li>", colour, glyph(shape),
                       html(label));
  return out + "</ul>\n";
}

std::string cell_html(const RunView& run, std::size_t column, const std::string& text) {
  if (column == 0) {
    const bool peer = !run.subject.empty() && run.subject != "ddlbench";
    return fmt::format("<th scope=\"row\">{}{}</th>", html(text),
                       peer ? " <span class=\"badge peer\">peer</span>" : "");
  }
  if (columns()[column].title == "state")
    return fmt::format("<td><span class=\"badge {}\">{}</span></td>", run.ok() ? "ok" : "not-ok", html(text));
  const auto interval = column == 2 ? interval_text(run) : "";
  return fmt::format("<td class=\"number{}\">{}{}</td>", text == "-" ? " unknown" : "", html(text),
                     interval.empty() ? "" : "<div class=\"interval\">" + html(interval) + "</div>");
}

std::string heading_row(const std::string& heading, std::size_t columns) {
  if (heading.empty()) return "";
  return fmt::format("<tr class=\"heading\"><th scope=\"rowgroup\" colspan=\"{}\">{}</th></tr>\n", columns, html(heading));
}

std::string row_html(const RunView& run) {
  const auto texts = cells(run);
  std::string out = fmt::format("<tr class=\"run{}\">", run.ok() ? "" : " failed");
  for (std::size_t c = 0; c < kColumns; ++c) out += cell_html(run, c, texts[c]);
  out += "</tr>\n";
  if (!run.ok() && !run.reason.empty())
    out += fmt::format("<tr class=\"reason\"><td colspan=\"{}\">{}: {}</td></tr>\n", kColumns, html(texts.back()), html(run.reason));
  return out;
}

std::string ledger_legend(const PageContent& content) {
  std::string out = "<ul class=\"legend causes\">";
  for (const auto cause : causes_present(content.groups))
    out += fmt::format(
        "<li><span class=\"swatch\" aria-hidden=\"true\" style=\"background:{}\"></span> <b>{}</b> {}</li>",
        cause_colour(cause), name(cause), meaning(cause));
  return out + "</ul>\n";
}

std::string ledger_table(const PageContent& content) {
  const auto causes = causes_present(content.groups);
  std::string out =
      "<details><summary>The same as a table</summary><div class=\"scroll\"><table><caption>Mean milliseconds "
      "per step by cause, for each worker; the causes add up to the step</caption><thead><tr>"
      "<th scope=\"col\">worker</th>";
  for (const auto cause : causes) out += fmt::format("<th scope=\"col\" class=\"number\">{}</th>", name(cause));
  out +=
      "<th scope=\"col\" class=\"number\">step</th><th scope=\"col\" class=\"number\">hidden "
      "communication</th></tr></thead><tbody>\n";
  for (const auto& [heading, runs] : sections(content.groups)) {
    out += heading_row(heading, causes.size() + 3);
    for (const auto* run : runs)
      if (run->has_ledger())
        for (const auto& rank : run->ranks) {
          out += fmt::format("<tr><th scope=\"row\">{}, rank {}</th>", html(run->label), rank.rank);
          for (const auto cause : causes) out += fmt::format("<td class=\"number\">{}</td>", in_figures(rank[cause]));
          out += fmt::format("<td class=\"number\">{}</td><td class=\"number\">{}</td></tr>\n", in_figures(rank.total_ms()),
                             rank.overlapped_ms ? in_figures(*rank.overlapped_ms) : "-");
        }
  }
  return out + "</tbody></table></div></details>\n";
}

std::string figures(const PageContent& content, Specifications& plots, const std::string& kind,
                    const std::vector<Plot (*)(const RunGroup&)>& makers) {
  std::string out;
  for (std::size_t g = 0; g < content.groups.size(); ++g)
    for (std::size_t m = 0; m < makers.size(); ++m)
      if (const Plot plot = makers[m](content.groups[g]); plot.present())
        out += figure_html(plot, fmt::format("{}-{}-{}", kind, g, m), plots);
  // Beside each other, figures would have no room for long names of rows.
  const bool wide = std::any_of(content.views.begin(), content.views.end(), [](const RunView& view) { return display_width(view.series) > kShortName; });
  return out.empty() ? "" : fmt::format("<div class=\"figures{}\">\n{}</div>\n", wide ? " wide" : "", out);
}

}  // namespace

std::string figure_html(const Plot& plot, const std::string& id, Specifications& plots) {
  plots.emplace_back(id, plot.specification);
  return fmt::format(
      "<figure>\n<figcaption>{}</figcaption>\n{}<div class=\"plot\" id=\"{}\" role=\"img\" aria-label=\"{}\">"
      "</div>\n{}</figure>\n",
      html(plot.title), legend_html(plot.legend), id, html(plot.description),
      plot.note.empty() ? "" : "<p class=\"note\">" + html(plot.note) + "</p>\n");
}

std::string section_html(const std::string& id, const std::string& title, const std::string& lead,
                         const std::string& body) {
  if (body.empty()) return "";
  return fmt::format(
      "<section id=\"{0}\" aria-labelledby=\"{0}-title\">\n<h2 id=\"{0}-title\">{1}</h2>\n{2}{3}</section>\n", id,
      title, lead.empty() ? "" : "<p class=\"explain\">" + lead + "</p>\n", body);
}

std::string results_html(const PageContent& content) {
  if (content.views.empty()) return "";
  std::string out =
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Results\"><table "
      "id=\"results-table\"><caption>Throughput is the median over measured steps of the "
      "whole group. Speed-up and efficiency compare with the one-worker run of the same subject, network, data "
      "set and global batch.</caption>\n<thead><tr>";
  for (const auto& column : columns())
    out += fmt::format("<th scope=\"col\"{}>{}{}</th>", column.is_number ? " class=\"number\"" : "", column.title,
                       column.unit.empty() ? "" : fmt::format("<div class=\"unit\">{}</div>", column.unit));
  out += "</tr></thead>\n<tbody>\n";
  for (const auto& [heading, runs] : sections(content.groups)) {
    out += heading_row(heading, kColumns);
    for (const auto* run : runs) out += row_html(*run);
  }
  return section_html("results", "Results", batches_note(content.groups), out + "</tbody></table></div>\n");
}

std::string scaling_html(const PageContent& content, Specifications& plots) {
  return section_html(
      "scaling", "Scaling",
      "The dashed line is what perfect scaling would give: as many times the one-worker throughput as there "
      "are workers.",
      figures(content, plots, "scaling", {scaling_plot}));
}

std::string time_html(const PageContent& content, Specifications& plots) {
  const std::string plotted = figures(content, plots, "ledger", {ledger_plot});
  if (plotted.empty()) return "";
  std::string sentences;
  for (const auto& view : content.views) sentences += "<li>" + html(where_time_went(view)) + "</li>\n";
  return section_html(
      "time", "Where the time went",
      "Each bar is one worker's mean step, cut by cause. The causes add up to the step: what no measurement "
      "accounts for is shown as residual.",
      ledger_legend(content) + plotted + "<ul class=\"sentences\">\n" + sentences + "</ul>\n" +
          ledger_table(content));
}

std::string prediction_html(const PageContent& content, Specifications& plots) {
  const std::string plotted = figures(content, plots, "prediction", {prediction_plot});
  if (plotted.empty()) return "";
  std::string sentences;
  for (const auto& view : content.views)
    if (const auto prediction = prediction_of(view)) {
      sentences += "<li>" + html(prediction_sentence(view, *prediction)) + "</li>\n";
      for (const auto& sentence : beyond_sentences(view, *prediction)) sentences += "<li>" + html(sentence) + "</li>\n";
    }
  return section_html("prediction", "Prediction",
                      "What each run was expected to take, told before its first step from what <code>probe</code> had measured of the machine. Above 0 %: it was faster than predicted.",
                      plotted + "<ul class=\"sentences\">\n" + sentences + "</ul>\n");
}

std::string learning_html(const PageContent& content, Specifications& plots) {
  return section_html("learning", "Learning",
                      "Curves that lie on one another mean that dividing the work did not change what was learnt.",
                      figures(content, plots, "learning", {loss_plot, accuracy_plot}));
}

std::string steps_html(const PageContent& content, Specifications& plots) {
  return section_html("steps", "Step times", "How steady the steps were, seen from rank 0.",
                      figures(content, plots, "steps", {step_distribution_plot, step_series_plot}));
}

}  // namespace ddl
