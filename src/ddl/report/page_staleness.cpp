// The part of the page about gradients that servers of parameters applied as they came.
#include <map>

#include <fmt/format.h>

#include "ddl/report/escape.h"
#include "ddl/report/page_parts.h"
#include "ddl/report/staleness.h"

namespace ddl {
namespace {

/// Both distributions of one run, range by range.
std::string rows_html(const RunView& view, const Staleness& staleness) {
  struct Row {
    std::string words;
    double updates = 0, steps = 0;
  };
  std::map<std::int64_t, Row> rows;
  for (const auto& range : shares_of(staleness.by_updates)) rows[range.first] = {in_words(range), range.share, 0};
  for (const auto& range : shares_of(staleness.by_steps)) {
    auto& row = rows[range.first];
    row.words = in_words(range);
    row.steps = range.share;
  }
  std::string out;
  for (const auto& [first, row] : rows)
    out += fmt::format("<tr><th scope=\"row\">{}</th><td class=\"number\">{}</td><td class=\"number\">{:.1f}</td><td class=\"number\">{:.1f}</td></tr>\n", html(view.label), row.words,
                       100 * row.updates, 100 * row.steps);
  return out;
}

}  // namespace

std::string staleness_html(const PageContent& content) {
  std::string sentences, rows;
  for (const auto& view : content.views)
    if (const auto staleness = staleness_of(view)) {
      sentences += "<li>" + html(staleness_sentence(view, *staleness)) + "</li>\n";
      rows += rows_html(view, *staleness);
    }
  if (rows.empty()) return "";
  return section_html("staleness", "Staleness",
                      "How old the parameters were that gradients were computed with, by updates that others made since and by steps that the slowest worker was behind.",
                      "<ul class=\"sentences\">\n" + sentences + "</ul>\n<div class=\"scroll\"><table><caption>Shares of all gradients, in percent</caption><thead><tr><th scope=\"col\">run</th>"
                      "<th scope=\"col\" class=\"number\">staleness</th><th scope=\"col\" class=\"number\">in updates by others</th><th scope=\"col\" class=\"number\">in steps</th></tr></thead>"
                      "<tbody>\n" + rows + "</tbody></table></div>\n");
}

}  // namespace ddl
