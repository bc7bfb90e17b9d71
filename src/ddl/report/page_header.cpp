#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "ddl/core/text.h"
#include "ddl/core/units.h"
#include "ddl/report/escape.h"
#include "ddl/report/format.h"
#include "ddl/report/page_parts.h"
#include "ddl/report/precision.h"
#include "ddl/report/words.h"

namespace ddl {
namespace {

constexpr std::size_t kCards = 6;

std::string listed(const std::set<std::string>& words) {
  std::vector<std::string> parts;
  for (const auto& word : words)
    if (!word.empty()) parts.push_back(word);
  return enumerated(parts);
}

template <typename Part>
std::set<std::string> all(const PageContent& content, Part part) {
  std::set<std::string> found;
  for (const auto& view : content.views) found.insert(part(view));
  return found;
}

/// `2026-11-21T10:15:02.123Z` -> `2026-11-21 10:15 UTC`.
std::string minute_of(const std::string& time) {
  if (time.size() < 16 || time[10] != 'T') return time;
  return time.substr(0, 10) + " " + time.substr(11, 5) + " UTC";
}

std::string when(const PageContent& content) {
  const auto starts = all(content, [](const RunView& view) { return minute_of(view.started); });
  std::vector<std::string> known;
  for (const auto& start : starts)
    if (!start.empty()) known.push_back(start);
  if (known.empty()) return "";
  if (known.size() == 1) return "on " + known.front();
  std::string last = known.back();
  if (last.substr(0, 10) == known.front().substr(0, 10)) last = last.substr(11);
  return fmt::format("from {} to {}", known.front(), last);
}

std::string run_where(const PageContent& content) {
  std::set<std::string> hosts;
  for (const auto& view : content.views) {
    const auto* before = find_at(*view.record, {"environment", "before"});
    if (!before) continue;
    std::vector<std::string> parts;
    if (const auto host = text_at(*before, {"host"}); !host.empty()) parts.push_back(host);
    if (const auto cpu = text_at(*before, {"cpu", "model"}); !cpu.empty()) parts.push_back(cpu);
    for (const auto* key : {"usable_cores", "logical_cores"})
      if (const auto cores = number_at(*before, {"cpu", key})) {
        parts.push_back(counted(static_cast<long long>(*cores), "core"));
        break;
      }
    if (const auto memory = number_at(*before, {"memory", "total_bytes"}))
      parts.push_back(to_string(Bytes{static_cast<std::int64_t>(*memory)}) + " of memory");
    for (const auto* key : {"distribution", "kernel"})
      if (const auto os = text_at(*before, {"os", key}); !os.empty()) {
        parts.push_back(os);
        break;
      }
    if (!parts.empty()) hosts.insert(join(parts, ", "));
  }
  return hosts.empty() ? "" : " on " + listed(hosts);
}

std::string with_what(const PageContent& content) {
  std::set<std::string> builds;
  for (const auto& view : content.views) {
    const auto version = text_at(*view.record, {"build", "version"}),
               commit = text_at(*view.record, {"build", "commit"}), torch = text_at(*view.record, {"build", "torch"});
    const auto* dirty = find_at(*view.record, {"build", "dirty"});
    if (!view.subject.empty() && view.subject != "ddlbench") {
      // Its own version, as it said it; the build is ours.
      std::string peer = view.subject;
      if (const auto* messages = find_at(*view.record, {"messages"}); messages && messages->is_array())
        for (const auto& message : *messages)
          if (message.is_string() && message.get<std::string>().starts_with("version of torch: ")) peer += " (PyTorch " + message.get<std::string>().substr(18) + ")";
      builds.insert(peer);
      continue;
    }
    std::string build = (view.subject.empty() ? "ddlbench" : view.subject) + (version.empty() ? "" : " " + version);
    if (!commit.empty())
      build += fmt::format(" ({}{})", commit.substr(0, 10), dirty && *dirty == true ? ", with local changes" : "");
    if (!torch.empty()) build += ", PyTorch " + torch;
    builds.insert(build);
  }
  return listed(builds);
}

std::string what_was_run(const PageContent& content) {
  const auto studies = listed(all(content, [](const RunView& view) { return view.study; }));
  const auto models = listed(all(content, [](const RunView& view) { return view.model; }));
  const auto datasets = listed(all(content, [](const RunView& view) { return view.dataset; }));
  const auto transports =
      listed(all(content, [](const RunView& view) { return view.workers > 1 ? view.transport : ""; }));
  std::set<int> counts;
  for (const auto& view : content.views)
    if (view.workers > 0) counts.insert(view.workers);
  std::string text = counted(static_cast<long long>(content.views.size()), "run");
  if (!studies.empty()) text += " of study " + studies;
  if (!models.empty()) text += ": " + models + " trained";
  if (!datasets.empty()) text += " on " + datasets;
  if (!counts.empty()) {
    std::vector<std::string> numbers;
    for (const int count : counts) numbers.push_back(std::to_string(count));
    text += " with " + enumerated(numbers) + (counts.size() == 1 && *counts.begin() == 1 ? " worker" : " workers");
  }
  if (!transports.empty()) text += " over " + transports;
  return text;
}

std::string fact(const std::string& value, const std::string& what) {
  return fmt::format("<div><dt>{}</dt><dd>{}</dd></div>", html(what), html(value));
}

/// The numbers of a group's best run and its sentence, which a page of one group has as its title already.
std::string card_html(const RunGroup& group, bool alone) {
  const std::string sentence = finding(group);
  std::string out = fmt::format("<li class=\"card\"><h2>{}</h2>", html(group.title()));
  if (const RunView* best = group.best()) {
    out += "<dl>";
    if (best->speedup && best->workers > 1) out += fact(in_times(*best->speedup), "speed-up, " + best->series);
    out += fact(in_figures(best->throughput->median), "samples/s, " + best->series);
    if (best->accuracy) out += fact(fmt::format("{:.1f} %", 100 * *best->accuracy), "test accuracy");
    if (best->bleu) out += fact(fmt::format("{:.1f}", *best->bleu), "BLEU");
    out += "</dl>";
  }
  if (!alone || sentence.empty())
    out += "<p>" + html(sentence.empty() ? "No run of this kind succeeded." : sentence) + "</p>";
  for (const auto& beside_fp32 : precision_findings(group)) out += "<p>" + html(beside_fp32) + "</p>";
  return out + "</li>\n";
}

}  // namespace

std::string header_html(const PageContent& content) {
  std::string title;
  for (const auto& group : content.groups)
    if (title.empty()) title = finding(group);
  if (title.empty()) title = content.views.empty() ? "No runs to report." : "No run has succeeded yet.";
  std::string out = fmt::format("<header>\n<p class=\"kicker\">ddlbench report</p>\n<h1>{}</h1>\n", html(title));
  if (!content.views.empty()) {
    std::string text = what_was_run(content);
    if (const auto time = when(content); !time.empty()) text += ", " + time;
    out += fmt::format("<p class=\"lead\">{}{}. Measured with {}.</p>\n", html(text), html(run_where(content)),
                       html(with_what(content)));
  }
  if (const auto failed = failures(content.views); !failed.empty())
    out += fmt::format("<p class=\"warning\" role=\"note\">{} Reasons stand in the table.</p>\n", html(failed));
  if (!content.groups.empty()) {
    out += "<ul class=\"cards\">\n";
    for (std::size_t i = 0; i < std::min(content.groups.size(), kCards); ++i)
      out += card_html(content.groups[i], content.groups.size() == 1);
    out += "</ul>\n";
  }
  return out + "</header>\n";
}

}  // namespace ddl
