#include "ddl/measure/timeline.h"

#include <algorithm>

namespace ddl {
namespace {

/// In order and without overlap; empty ones are dropped.
std::vector<Period> merged(std::vector<Period> periods) {
  std::sort(periods.begin(), periods.end(), [](const Period& a, const Period& b) { return a.begin < b.begin; });
  std::vector<Period> out;
  for (const auto& period : periods) {
    if (period.begin >= period.end) continue;
    if (!out.empty() && period.begin <= out.back().end)
      out.back().end = std::max(out.back().end, period.end);
    else
      out.push_back(period);
  }
  return out;
}

Nanoseconds length(const std::vector<Period>& periods) {
  Nanoseconds sum = 0;
  for (const auto& period : periods) sum += period.end - period.begin;
  return sum;
}

/// Of two lists, each in order and without overlap.
Nanoseconds common(const std::vector<Period>& a, const std::vector<Period>& b) {
  Nanoseconds sum = 0;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    sum += std::max<Nanoseconds>(0, std::min(a[i].end, b[j].end) - std::max(a[i].begin, b[j].begin));
    ++(a[i].end < b[j].end ? i : j);
  }
  return sum;
}

}  // namespace

Arrivals::Arrivals(std::span<const Span> spans) {
  for (const auto& span : spans)
    if (span.stream == Stream::communication && span.meeting != 0) {
      auto& arrival = last_[{span.step, span.meeting}];
      arrival = std::max(arrival, span.begin);
    }
}

std::optional<Nanoseconds> Arrivals::of(const Span& span) const {
  if (span.meeting == 0) return std::nullopt;
  const auto found = last_.find({span.step, span.meeting});
  return found == last_.end() ? std::nullopt : std::optional(found->second);
}

Trace flatten(std::span<const Span> spans, int worker, Nanoseconds begin, Nanoseconds end, const Arrivals& arrivals) {
  Trace own;
  for (auto span : spans) {
    if (span.worker != worker || span.stream != Stream::compute) continue;
    span.begin = std::max(span.begin, begin);
    span.end = std::min(span.end, end);
    if (span.begin < span.end) own.push_back(span);
  }
  // Outer spans first, so that a sweep with a stack meets each span after the one that encloses it.
  std::sort(own.begin(), own.end(), [](const Span& a, const Span& b) { return a.begin != b.begin ? a.begin < b.begin : a.end > b.end; });

  Trace out;
  const auto add = [&](Span span, Cause cause, Nanoseconds from, Nanoseconds to) {
    if (from >= to) return;
    span.begin = from;
    span.end = to;
    span.cause = cause;
    out.push_back(span);
  };
  const auto cut = [&](const Span& span, Nanoseconds from, Nanoseconds to) {
    if (from >= to) return;
    if (span.cause != Cause::communication && span.cause != Cause::bubble) return add(span, span.cause, from, to);
    const auto last = std::clamp(arrivals.of(span).value_or(from), from, to);
    add(span, span.cause == Cause::bubble ? Cause::bubble : Cause::wait, from, last);
    add(span, Cause::communication, last, to);
  };

  Trace open;
  Nanoseconds cursor = begin;
  const auto close_until = [&](Nanoseconds time) {
    while (!open.empty() && open.back().end <= time) {
      cut(open.back(), cursor, open.back().end);
      cursor = std::max(cursor, open.back().end);
      open.pop_back();
    }
  };
  for (const auto& span : own) {
    close_until(span.begin);
    if (!open.empty()) cut(open.back(), cursor, span.begin);
    cursor = std::max(cursor, span.begin);
    open.push_back(span);
  }
  close_until(end);
  return out;
}

std::vector<Period> moving(std::span<const Span> spans, int worker, Nanoseconds begin, Nanoseconds end, const Arrivals& arrivals, const Trace& compute) {
  std::vector<Period> periods;
  for (const auto& span : spans)
    if (span.worker == worker && span.stream == Stream::communication)
      periods.push_back({std::max({span.begin, begin, arrivals.of(span).value_or(begin)}), std::min(span.end, end)});
  for (const auto& piece : compute)
    if (piece.cause == Cause::communication) periods.push_back({piece.begin, piece.end});
  return merged(std::move(periods));
}

Activity& Activity::operator+=(const Activity& other) {
  communication += other.communication;
  overlapped += other.overlapped;
  idle += other.idle;
  return *this;
}

Activity activity(const Trace& compute, const std::vector<Period>& moved, Nanoseconds begin, Nanoseconds end) {
  std::vector<Period> computing, busy = moved;
  for (const auto& piece : compute) {
    if (computes(piece.cause)) computing.push_back({piece.begin, piece.end});
    if (computes(piece.cause) || piece.cause == Cause::copy) busy.push_back({piece.begin, piece.end});
  }
  return {seconds(length(moved)), seconds(common(computing, moved)), seconds(end - begin - length(merged(std::move(busy))))};
}

}  // namespace ddl
