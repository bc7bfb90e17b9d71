#include "ddl/report/lanes.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>

#include <fmt/format.h>

namespace ddl {
namespace {

/// A span that no lane can take without overlap goes into the last of so many: more never happens in practice.
constexpr std::size_t kLanesOfAName = 16;

bool communication_overlaps(const TraceView& view) {
  std::map<int, std::vector<Period>> by_rank;
  for (const auto& each : view.spans)
    if (each.span.stream == Stream::communication) by_rank[each.span.worker].push_back({each.span.begin, each.span.end});
  for (auto& [rank, periods] : by_rank) {
    std::sort(periods.begin(), periods.end(), [](const Period& a, const Period& b) { return std::tie(a.begin, a.end) < std::tie(b.begin, b.end); });
    for (std::size_t i = 1; i < periods.size(); ++i)
      if (periods[i].begin < periods[i - 1].end) return true;
  }
  return false;
}

std::string words(std::string text) {
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

std::string name_of(const TracedSpan& each, bool apart) {
  const auto& task = each.task;
  if (!apart || each.span.stream != Stream::communication || task.cargo.empty()) return each.stream;
  if (task.kind == "collective") return fmt::format("{}: {}{}", each.stream, words(task.cargo), task.group.empty() ? "" : " of " + task.group);
  return fmt::format("{}: {} {}", each.stream, task.kind, words(task.cargo));
}

std::size_t place_of(Stream stream) { return stream == Stream::loader ? kStreams : static_cast<std::size_t>(stream); }

}  // namespace

Lanes lanes_of(const TraceView& view) {
  const bool apart = communication_overlaps(view);
  // Lanes by rank, stream, name and number of their name: how they are shown.
  using Key = std::tuple<int, std::size_t, std::string, std::size_t>;
  std::vector<Key> keys(view.spans.size());
  std::vector<std::size_t> order(view.spans.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = {view.spans[i].span.worker, place_of(view.spans[i].span.stream), name_of(view.spans[i], apart), 0};
  const auto before = [&](std::size_t a, std::size_t b) {
    const auto &one = view.spans[a].span, &other = view.spans[b].span;
    return std::tie(keys[a], one.begin, other.end) < std::tie(keys[b], other.begin, one.end);
  };
  std::stable_sort(order.begin(), order.end(), before);

  std::map<Key, std::size_t> numbers;
  std::vector<std::vector<Nanoseconds>> open;  // of the current name: ends of what is open in each of its lanes
  std::optional<Key> current;
  for (const auto i : order) {
    if (current != keys[i]) open.clear();
    current = keys[i];
    const auto& span = view.spans[i].span;
    for (std::size_t lane = 0;; ++lane) {
      if (lane == open.size()) open.emplace_back();
      auto& ends = open[lane];
      while (!ends.empty() && ends.back() <= span.begin) ends.pop_back();
      if (!ends.empty() && ends.back() < span.end && lane + 1 < kLanesOfAName) continue;
      ends.push_back(span.end);
      std::get<3>(keys[i]) = lane;
      break;
    }
    numbers[keys[i]] = 0;
  }

  Lanes out;
  for (auto& [key, number] : numbers) {
    const auto& [rank, stream, called, again] = key;
    number = out.lanes.size();
    const int of_rank = out.lanes.empty() || out.lanes.back().rank != rank ? 1 : out.lanes.back().number + 1;
    out.lanes.push_back({rank, of_rank, again == 0 ? called : fmt::format("{} ({})", called, again + 1)});
  }
  out.of_span.resize(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) out.of_span[i] = numbers.at(keys[i]);
  std::stable_sort(order.begin(), order.end(), before);
  out.order = std::move(order);
  return out;
}

}  // namespace ddl
