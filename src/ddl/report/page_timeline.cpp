// The part of the page that shows steps, worker by worker.
#include <fmt/format.h>

#include "ddl/report/escape.h"
#include "ddl/report/format.h"
#include "ddl/report/page_parts.h"

namespace ddl {
namespace {

/// Each takes some 100 kB.
constexpr int kFigures = 24;

}  // namespace

std::string timeline_html(const PageContent& content, Specifications& plots) {
  std::string figures, sentences;
  int drawn = 0, left = 0;
  // Those of several workers first: there is more to see.
  for (const bool several : {true, false})
    for (const auto& view : content.views) {
      if ((view.workers > 1) != several) continue;
      const Plot plot = timeline_plot(view);
      if (!plot.present()) continue;
      if (drawn == kFigures) {
        ++left;
        continue;
      }
      figures += figure_html(plot, fmt::format("timeline-{}", drawn++), plots);
      if (const auto words = bubble_words(view); !words.empty()) sentences += fmt::format("<li><b>{}:</b> {}</li>\n", html(view.label), html(words));
    }
  if (figures.empty()) return "";
  if (left > 0) figures += fmt::format("<p class=\"note\">{} more with a trace: <code>ddlbench export RUN --format perfetto</code> shows each.</p>\n", counted(left, "run"));
  return section_html("timeline", "A step, worker by worker",
                      "Time runs to the right. The whole trace, with every step, is what <code>ddlbench export</code> writes for Perfetto and Chrome.",
                      (sentences.empty() ? "" : "<ul class=\"sentences\">\n" + sentences + "</ul>\n") + "<div class=\"figures wide\">\n" + figures + "</div>\n");
}

}  // namespace ddl
