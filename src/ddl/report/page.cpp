#include <fmt/format.h>

#include "ddl/report/escape.h"
#include "ddl/report/page_parts.h"
#include "ddl/report/report.h"
#include "ddl/report/resources.h"

namespace ddl {
namespace {

// The page may run its own scripts (Vega compiles expressions) and nothing else: no request leaves it.
constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'";

std::string navigation(const std::vector<std::pair<std::string, std::string>>& titled) {
  std::string out = "<nav aria-label=\"Sections\"><ul>";
  for (const auto& [id, title] : titled) out += fmt::format("<li><a href=\"#{}\">{}</a></li>", id, title);
  return out + "</ul></nav>\n";
}

std::string scripts(const Specifications& plots) {
  const auto files = resources();
  Json specifications = Json::object();
  for (const auto& [id, specification] : plots) specifications[id] = specification;
  std::string out =
      fmt::format("<script type=\"application/json\" id=\"plots\">{}</script>\n", script_json(specifications));
  // A comment would end at its own closing mark, so the licences stand in a block that browsers do not run.
  out += fmt::format(
      "<script type=\"text/plain\" id=\"licences\">\nThis page embeds Vega, Vega-Lite and vega-embed, from the "
      "Python package `vega`:\n\n{}\n\n{}</script>\n",
      files.vega_wheel_licence, files.vega_bundle_licence);
  for (const auto script : {files.vega_shim_js, files.vega_js, files.page_js}) {
    out += "<script>\n";
    out += script;
    out += "\n</script>\n";
  }
  return out;
}

}  // namespace

std::string page_html(const std::string& header, const std::vector<PagePart>& parts, const Specifications& plots) {
  std::vector<std::pair<std::string, std::string>> shown;
  std::string body;
  for (const auto& [titled, part] : parts) {
    if (part.empty()) continue;
    shown.push_back(titled);
    body += part;
  }

  std::string out = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  out += fmt::format("<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n", kPolicy);
  out += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         "<meta name=\"color-scheme\" content=\"light dark\">\n<title>ddlbench report</title>\n"
         "<link rel=\"icon\" href=\"data:,\">\n<style>\n";
  out += resources().page_css;
  out += "</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#content\">Skip to the results</a>\n" +
         header + navigation(shown) + "<main id=\"content\">\n" + body + "</main>\n" +
         "<footer><p>Made by ddlbench. This page is complete: it loads nothing from elsewhere.</p></footer>\n" +
         "<noscript><p class=\"warning\">The plots need JavaScript; the tables and sentences say the "
         "same.</p></noscript>\n" +
         scripts(plots) + "</body>\n</html>\n";
  return out;
}

std::string render_report(const std::vector<Json>& records, Batches batches, const std::vector<Json>& explanations, const std::string& explanations_note) {
  PageContent content;
  content.explanations = explanations;
  content.explanations_note = explanations_note;
  content.views = view_runs(records);
  compare(content.views, batches);
  content.groups = group_runs(content.views, batches);

  Specifications plots;
  const std::vector<PagePart> parts{
      {{"results", "Results"}, results_html(content)},
      {{"scaling", "Scaling"}, scaling_html(content, plots)},
      {{"time", "Time"}, time_html(content, plots)},
      {{"why", "Why not faster"}, why_html(content, plots)},
      {{"prediction", "Prediction"}, prediction_html(content, plots)},
      {{"timeline", "Timeline"}, timeline_html(content, plots)},
      {{"staleness", "Staleness"}, staleness_html(content)},
      {{"learning", "Learning"}, learning_html(content, plots)},
      {{"steps", "Steps"}, steps_html(content, plots)},
      {{"environment", "Environment"}, environment_html(content)},
      {{"configuration", "Configuration"}, configuration_html(content)},
      {{"data", "Data"}, downloads_html(content)}};
  return page_html(header_html(content), parts, plots);
}

}  // namespace ddl
