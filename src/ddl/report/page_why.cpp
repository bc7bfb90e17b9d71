// What explain says of the runs: the part of the page that tells why they are not faster.
#include <fmt/format.h>

#include "ddl/report/escape.h"
#include "ddl/report/explanations.h"
#include "ddl/report/format.h"
#include "ddl/report/page_parts.h"

namespace ddl {
namespace {

std::string number(const std::optional<double>& value) { return value ? in_figures(*value) : "-"; }

/// In hundredths, with its sign where something is won.
std::string times(double value) { return fmt::format("{:.2f}x", value); }

std::string causes_table(const ExplanationView& view) {
  std::string out =
      "<div class=\"scroll\"><table><caption>What of the ideal speed-up is lost to each cause, and what the simulator says of a step without that cause alone; the first column sums to the number of workers</caption>"
      "<thead><tr><th scope=\"col\">cause</th><th scope=\"col\" class=\"number\">lost</th><th scope=\"col\" class=\"number\">step without it, ms</th><th scope=\"col\" class=\"number\">gained, ms</th>"
      "<th scope=\"col\" class=\"number\">speed-up without it</th></tr></thead><tbody>\n";
  const auto row = [&](const std::string& cause, double lost, const std::string& rest) {
    out += fmt::format("<tr><th scope=\"row\">{}</th><td class=\"number\">{}</td>{}</tr>\n", html(cause), times(lost), rest);
  };
  const std::string none = "<td></td><td></td><td></td>";
  row("reached", view.speedup, none);
  for (const auto& part : view.parts)
    row(fmt::format("{}: {}", part.cause, part.words), part.lost,
        fmt::format("<td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td>", number(part.step_ms), number(part.gain_ms), part.speedup ? times(*part.speedup) : "-"));
  row("not explained", view.not_explained, none);
  double sum = view.speedup + view.not_explained;
  for (const auto& part : view.parts) sum += part.lost;
  row("sum: the workers", sum, none);
  return out + "</tbody></table></div>\n";
}

std::string prediction_table(const ExplanationView& view) {
  if (view.terms.empty() || !view.predicted_ms || !view.measured_ms) return "";
  std::string out =
      "<div class=\"scroll\"><table><caption>What a machine profile says of the step, beside what was measured: ms a step, on the mean over workers</caption><thead><tr><th scope=\"col\">term</th>"
      "<th scope=\"col\" class=\"number\">predicted</th><th scope=\"col\" class=\"number\">measured</th><th scope=\"col\" class=\"number\">predicted − measured</th></tr></thead><tbody>\n";
  const auto row = [&](std::string_view term, double predicted, double measured) {
    if (predicted == 0 && measured == 0) return;
    out += fmt::format("<tr><th scope=\"row\">{}</th><td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"number\">{:+.3g}</td></tr>\n", term, in_figures(predicted), in_figures(measured), predicted - measured);
  };
  for (std::size_t i = 0; i < view.terms.size(); ++i) row(name(static_cast<Cause>(i)), view.terms[i][0], view.terms[i][1]);
  row("step", *view.predicted_ms, *view.measured_ms);
  return out + "</tbody></table></div>\n";
}

std::string legend(const std::vector<ExplanationView>& all) {
  const auto entry = [](const std::string& cause, const std::string& words) {
    return fmt::format("<li><span class=\"swatch\" aria-hidden=\"true\" style=\"background:{}\"></span> <b>{}</b> {}</li>", loss_colour(cause), html(cause), html(words));
  };
  std::string out = "<ul class=\"legend causes\">" + entry("reached", "the speed-up that there is");
  for (const auto& [cause, words] : losses_present(all)) out += entry(cause, words);
  return out + entry("not explained", "what the simulator is off by") + "</ul>\n";
}

}  // namespace

std::string why_html(const PageContent& content, Specifications& plots) {
  std::vector<ExplanationView> told;
  std::string figures, runs;
  for (std::size_t g = 0; g < content.groups.size(); ++g) {
    if (const Plot plot = why_plot(content.groups[g], content.explanations); plot.present()) figures += figure_html(plot, fmt::format("why-{}", g), plots);
    for (const auto* run : content.groups[g].runs) {
      const auto view = explanation_of(content.explanations, *run);
      if (!view || view->words.empty()) continue;
      runs += fmt::format("<h3>{}</h3>\n<p>{}</p>\n", html(run->label), html(view->words));
      std::string tables;
      if (view->workers > 1) {
        told.push_back(*view);
        tables += causes_table(*view);
      }
      tables += prediction_table(*view);
      if (!tables.empty()) runs += "<details><summary>In figures</summary>\n" + tables + "</details>\n";
    }
  }
  if (runs.empty()) return "";
  std::string out;
  if (!figures.empty()) out += legend(told) + "<div class=\"figures wide\">\n" + figures + "</div>\n";
  return section_html("why", "Why not faster",
                      "What stands between the speed-up that was reached and the ideal one. Each cause has its share of that (its mean over all orders in which causes could be taken away, by a simulator that is given what "
                      "each task took); <code>ddlbench explain RUN</code> says the same of one run.",
                      out + runs + (content.explanations_note.empty() ? "" : "<p class=\"note\">" + html(content.explanations_note) + "</p>\n"));
}

}  // namespace ddl
