// The parts of the page that say how it was measured: environment, configuration, raw records.
#include <map>

#include <fmt/format.h>

#include "ddl/core/units.h"
#include "ddl/report/download.h"
#include "ddl/report/escape.h"
#include "ddl/report/export.h"
#include "ddl/report/format.h"
#include "ddl/report/page_parts.h"

namespace ddl {
namespace {

/// Packed bytes that all downloads of a page may take together.
constexpr std::size_t kDownloadBudget = 1'800'000;

using Facts = std::vector<std::pair<std::string, std::string>>;

/// `cpu.model` -> text, depth first.
void flatten(const Json& value, const std::string& path, Facts& facts) {
  if (value.is_object() && !value.empty()) {
    for (const auto& [key, part] : value.items()) flatten(part, path.empty() ? key : path + "." + key, facts);
    return;
  }
  std::string text = as_text(value);
  if (value.is_number() && path.starts_with("memory.") && value.get<double>() >= 1e6)
    text = to_string(Bytes{static_cast<std::int64_t>(value.get<double>())});
  if (value.is_array() && !value.empty() && !value.front().is_structured()) {
    text.clear();
    for (const auto& part : value) text += (text.empty() ? "" : ", ") + as_text(part);
  }
  if (value.is_structured() && value.empty()) text = "none";
  facts.emplace_back(path, text);
}

std::string facts_table(const std::string& caption, const Facts& facts) {
  std::string out =
      fmt::format("<div class=\"scroll\"><table class=\"facts\"><caption>{}</caption><tbody>\n", html(caption));
  for (const auto& [key, value] : facts)
    out += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", html(key), html(value));
  return out + "</tbody></table></div>\n";
}

/// What stays the same from run to run on one machine tells machines apart.
std::string machine_key(const Json& environment) {
  return text_at(environment, {"host"}) + "\n" + text_at(environment, {"cpu", "model"}) + "\n" +
         text_at(environment, {"os", "kernel"});
}

std::string drift_html(const PageContent& content) {
  std::string out;
  for (const auto& view : content.views) {
    const auto* drift = find_at(*view.record, {"environment", "drift"});
    if (!drift || !drift->is_array()) continue;
    for (const auto& sentence : *drift)
      out += fmt::format("<li><b>{}:</b> {}</li>\n", html(view.label), html(as_text(sentence)));
  }
  if (out.empty()) return "<p>No drift was noted between the start and the end of any run.</p>\n";
  return "<h3>What changed during the runs</h3>\n<ul>\n" + out + "</ul>\n";
}

std::string configuration_table(const RunView& view) {
  const auto* config = find_at(*view.record, {"config"});
  if (!config || !config->is_object()) return "";
  std::string out =
      "<div class=\"scroll\"><table><caption>Every key, and where its value came from</caption><thead><tr>"
      "<th scope=\"col\">key</th><th scope=\"col\">value</th><th scope=\"col\">from</th></tr></thead><tbody>\n";
  for (const auto& [key, value] : config->items()) {
    const auto origin = text_at(*view.record, {"provenance", key});
    out += fmt::format("<tr class=\"{}\"><th scope=\"row\">{}</th><td>{}</td><td>{}</td></tr>\n",
                       origin == "default" ? "default" : "chosen", html(key), html(as_text(value)), html(origin));
  }
  return out + "</tbody></table></div>\n";
}

Facts run_facts(const RunView& view) {
  Facts facts;
  for (const auto* key : {"id", "identity", "state", "reason", "subject", "started", "finished", "dataset_digest",
                          "parameters_digest"})
    if (const auto* value = find_at(*view.record, {key})) facts.emplace_back(key, as_text(*value));
  for (const auto* key : {"build", "launch", "samples", "model"})
    if (const auto* value = find_at(*view.record, {key})) flatten(*value, key, facts);
  return facts;
}

std::string messages_html(const RunView& view) {
  const auto* messages = find_at(*view.record, {"messages"});
  if (!messages || !messages->is_array() || messages->empty()) return "";
  std::string text;
  for (const auto& line : *messages) text += as_text(line) + "\n";
  return "<h4>Workers' last lines</h4><pre>" + html(text) + "</pre>\n";
}

}  // namespace

std::string environment_html(const PageContent& content) {
  std::map<std::string, const RunView*> machines;
  for (const auto& view : content.views)
    if (const auto* before = find_at(*view.record, {"environment", "before"}); before && before->is_object())
      machines.try_emplace(machine_key(*before), &view);
  std::string out;
  for (const auto& [key, view] : machines) {
    Facts facts;
    flatten(*find_at(*view->record, {"environment", "before"}), "", facts);
    out += facts_table(fmt::format("As found before the run “{}”", view->label), facts);
  }
  if (out.empty()) return "";
  return section_html("environment", "Environment", "", drift_html(content) + out);
}

std::string configuration_html(const PageContent& content) {
  std::string out;
  for (const auto& view : content.views)
    out += fmt::format("<details><summary>{} <span class=\"quiet\">{}</span></summary>\n{}{}{}</details>\n",
                       html(view.label), html(view.id), configuration_table(view),
                       facts_table("The run", run_facts(view)), messages_html(view));
  return section_html("configuration", "Configuration",
                      "Every run with all its settings, and where each value came from.", out);
}

std::string downloads_html(const PageContent& content) {
  if (content.views.empty()) return "";
  std::string rows;
  for (const auto& view : content.views) {
    const auto download = download_of(*view.record, kDownloadBudget / content.views.size());
    rows += fmt::format(
        "<li><a class=\"record\" download=\"{}\" href=\"{}\">{}</a> <span class=\"quiet\">{}{}</span></li>\n",
        html(download.file_name), download.url, html(view.label),
        to_string(Bytes{static_cast<std::int64_t>(download.url.size() * 3 / 4)}),
        download.whole ? "" : ", " + html(download.left_out));
  }
  std::string csv;
  for (const auto& view : content.views) {
    const std::string lines = export_csv_summary(*view.record);
    csv += csv.empty() ? lines : lines.substr(lines.find('\n') + 1);
  }
  return section_html(
      "data", "Raw records",
      "Each run's whole record (ddlbench.run/1, JSON packed with gzip), with every step's time.",
      fmt::format("<ul>\n{}<li><a download=\"ddlbench-summary.csv\" href=\"data:text/csv;base64,{}\">All runs as a "
                  "CSV summary</a></li>\n</ul>\n",
                  rows, base64(csv)));
}

}  // namespace ddl
