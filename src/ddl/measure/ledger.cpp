#include "ddl/measure/ledger.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace ddl {
namespace {

using MeetingOfStep = std::pair<std::int32_t, std::uint32_t>;

std::map<MeetingOfStep, Nanoseconds> last_arrivals(std::span<const Span> spans) {
  std::map<MeetingOfStep, Nanoseconds> last;
  for (const auto& span : spans)
    if (span.stream == Stream::communication && span.meeting != 0) {
      auto& arrival = last[{span.step, span.meeting}];
      arrival = std::max(arrival, span.begin);
    }
  return last;
}

}  // namespace

Ledger& Ledger::operator+=(const Ledger& other) {
  wall += other.wall;
  for (std::size_t i = 0; i < kCauses; ++i) seconds[i] += other.seconds[i];
  return *this;
}

Ledger fold(std::span<const Span> spans, int worker, Nanoseconds begin, Nanoseconds end) {
  Ledger ledger;
  ledger.wall = seconds(end - begin);
  const auto arrivals = last_arrivals(spans);

  std::vector<Span> own;
  for (auto span : spans) {
    if (span.worker != worker || span.stream != Stream::compute) continue;
    span.begin = std::max(span.begin, begin);
    span.end = std::min(span.end, end);
    if (span.begin < span.end) own.push_back(span);
  }
  // Outer spans first, so that a sweep with a stack meets each span after the one that encloses it.
  std::sort(own.begin(), own.end(), [](const Span& a, const Span& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });

  const auto charge = [&](const Span& span, Nanoseconds from, Nanoseconds to) {
    if (from >= to) return;
    if (span.cause == Cause::communication || span.cause == Cause::bubble) {
      const auto found = arrivals.find({span.step, span.meeting});
      const auto last = found == arrivals.end() ? from : std::clamp(found->second, from, to);
      ledger[span.cause == Cause::bubble ? Cause::bubble : Cause::wait] += seconds(last - from);
      ledger[Cause::communication] += seconds(to - last);
    } else {
      ledger[span.cause] += seconds(to - from);
    }
  };

  std::vector<Span> open;
  Nanoseconds cursor = begin;
  const auto close_until = [&](Nanoseconds time) {
    while (!open.empty() && open.back().end <= time) {
      charge(open.back(), cursor, open.back().end);
      cursor = std::max(cursor, open.back().end);
      open.pop_back();
    }
  };
  for (const auto& span : own) {
    close_until(span.begin);
    if (!open.empty()) charge(open.back(), cursor, span.begin);
    cursor = std::max(cursor, span.begin);
    open.push_back(span);
  }
  close_until(end);

  double accounted = 0;
  for (const double part : ledger.seconds) accounted += part;
  ledger[Cause::residual] = ledger.wall - accounted;
  return ledger;
}

}  // namespace ddl
