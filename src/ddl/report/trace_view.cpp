#include "ddl/report/trace_view.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "ddl/report/run_view.h"

namespace ddl {
namespace {

template <class Word, std::size_t count>
std::optional<Word> word_of(const std::string& text) {
  for (std::size_t i = 0; i < count; ++i)
    if (text == name(static_cast<Word>(i))) return static_cast<Word>(i);
  return std::nullopt;
}

int whole_at(const Json& entry, std::string_view key, int otherwise) {
  const auto number = number_at(entry, {key});
  return number && !std::isnan(*number) ? static_cast<int>(std::clamp(*number, -2e9, 2e9)) : otherwise;
}

Nanoseconds nanoseconds(double microseconds) { return static_cast<Nanoseconds>(std::llround(microseconds * 1e3)); }

std::optional<Period> period_at(const Json& entry) {
  const auto begin = number_at(entry, {"begin_us"}), end = number_at(entry, {"end_us"});
  if (!begin || !end || !(*end >= *begin) || std::abs(*begin) > 1e15 || std::abs(*end) > 1e15) return std::nullopt;
  return Period{nanoseconds(*begin), nanoseconds(*end)};
}

/// The tasks of each role, and which ranks are of it.
struct RoleTasks {
  int first = 0, count = 0;
  std::vector<TaskView> tasks;
};

std::vector<RoleTasks> roles_of(const Json& record) {
  std::vector<RoleTasks> out;
  const auto* roles = find_at(record, {"plan", "roles"});
  if (!roles || !roles->is_array()) return out;
  for (const auto& role : *roles) {
    RoleTasks one{whole_at(role, "first", 0), whole_at(role, "count", 0), {}};
    if (const auto* tasks = find_at(role, {"tasks"}); tasks && tasks->is_array())
      for (const auto& task : *tasks) {
        one.tasks.push_back({text_at(task, {"kind"}), text_at(task, {"cargo"}), text_at(task, {"group"}), whole_at(task, "stage", -1),
                             whole_at(task, "micro_batch", -1), number_at(task, {"bytes"}).value_or(-1), text_at(task, {"goal"})});
        if (const auto* after = find_at(task, {"after"}); after && after->is_array())
          for (const auto& other : *after)
            if (other.is_number_integer()) one.tasks.back().after.push_back(other.get<int>());
      }
    out.push_back(std::move(one));
  }
  return out;
}

TaskView task_of(const std::vector<RoleTasks>& roles, int rank, int task) {
  for (const auto& role : roles)
    if (rank >= role.first && rank - role.first < role.count && task >= 0 && static_cast<std::size_t>(task) < role.tasks.size())
      return role.tasks[static_cast<std::size_t>(task)];
  return {};
}

}  // namespace

std::vector<int> TraceView::ranks() const {
  std::set<int> seen;
  for (const auto& each : spans) seen.insert(each.span.worker);
  return {seen.begin(), seen.end()};
}

Trace TraceView::trace(int step) const {
  Trace out;
  for (const auto& each : spans)
    if (step < 0 || each.span.step == step) out.push_back(each.span);
  return out;
}

TraceView view_trace(const Json& record) {
  TraceView view;
  const auto* trace = find_at(record, {"trace"});
  if (!trace || !trace->is_array()) return view;
  const auto roles = roles_of(record);
  for (const auto& entry : *trace) {
    const auto period = period_at(entry);
    const int rank = whole_at(entry, "rank", 0);
    if (!period || rank < 0 || rank > 32'767) continue;
    TracedSpan traced;
    traced.stream = text_at(entry, {"stream"});
    traced.cause = text_at(entry, {"cause"});
    traced.name = text_at(entry, {"name"});
    if (traced.stream.empty()) traced.stream = "compute";
    if (traced.name.empty()) traced.name = traced.cause;
    const int task = whole_at(entry, "task", -1);
    traced.task = task_of(roles, rank, task);
    traced.span = {period->begin, period->end, whole_at(entry, "step", 0), task, static_cast<std::int16_t>(rank),
                   word_of<Stream, kStreams>(traced.stream).value_or(Stream::compute), word_of<Cause, kCauses>(traced.cause).value_or(Cause::residual),
                   static_cast<std::uint32_t>(std::max(0.0, number_at(entry, {"meeting"}).value_or(0)))};
    view.spans.push_back(std::move(traced));
  }
  if (const auto* steps = find_at(record, {"trace_steps"}); steps && steps->is_array())
    for (const auto& entry : *steps)
      if (const auto period = period_at(entry)) {
        view.steps[{whole_at(entry, "step", 0), whole_at(entry, "rank", 0)}] = *period;
        view.steps_told = true;
      }
  if (!view.steps_told)
    for (const auto& [span, stream, cause, called, task] : view.spans) {
      const auto [place, fresh] = view.steps.try_emplace({span.step, span.worker}, Period{span.begin, span.end});
      place->second.begin = std::min(place->second.begin, span.begin);
      place->second.end = std::max(place->second.end, span.end);
    }
  return view;
}

std::vector<Flow> flows(const TraceView& view) {
  struct Ends {
    std::optional<std::size_t> send, receive;
  };
  std::map<std::pair<int, std::uint32_t>, Ends> messages;
  for (std::size_t i = 0; i < view.spans.size(); ++i) {
    const auto& [span, stream, cause, called, task] = view.spans[i];
    const bool serves = span.stream == Stream::server;
    if ((span.stream != Stream::communication && !serves) || span.meeting == 0) continue;
    if (task.kind == "send") messages[{span.step, span.meeting}].send = i;
    // A server that applies what it was pushed while it comes tells of both as an update.
    if (task.kind == "receive" || (serves && span.cause == Cause::update)) messages[{span.step, span.meeting}].receive = i;
  }
  std::vector<Flow> out;
  for (const auto& [key, ends] : messages)
    if (ends.send && ends.receive) out.push_back({*ends.send, *ends.receive});
  return out;
}

std::string rank_title(const Json& record, int rank) {
  std::string device;
  if (const auto* ranks = find_at(record, {"ranks"}); ranks && ranks->is_array())
    for (const auto& entry : *ranks)
      if (number_at(entry, {"rank"}) == rank) device = text_at(entry, {"device"});
  return fmt::format("rank {}{}", rank, device.empty() ? "" : " on " + device);
}

}  // namespace ddl
