#include "ddl/predict/measured/communication_part.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include "ddl/collective/communicator.h"
#include "ddl/collective/native.h"
#include "ddl/collective/prepare.h"
#include "ddl/core/error.h"
#include "ddl/predict/measured/wire_seconds.h"
#include "ddl/predict/simulate.h"

namespace ddl {
namespace {

constexpr std::size_t kElement = 4;
constexpr std::size_t kEnd = std::numeric_limits<std::size_t>::max();

/// How the group's ranks run one case, as pricing sees it.
FitSample sample_of(const TimedCollective& which, int ranks, bool shared, bool& one_shot) {
  const auto chosen = choose_algorithm(which.goal, which.algorithm);
  CollectiveShape shape{ranks, which.goal == Goal::barrier ? 0 : which.bytes / kElement};
  shape.peer = which.goal == Goal::point_to_point ? 1 : 0;
  shape.segment = chosen.segment_bytes / kElement;
  FitSample sample{which.bytes, which.seconds};
  one_shot = shared && shape.elements != 0 && prepare(chosen.algorithm(0, shape), which.goal, shape.root).one_shot.has_value();
  sample.group = std::make_shared<ScheduleGroup>(group_schedules(chosen.algorithm, shape, kElement));
  if (one_shot) sample.counts = one_shot_counts(shape, kElement);
  return sample;
}

bool is_native(const TimedCollective& which) { return parse_native(which.goal, which.algorithm).has_value(); }

/// By collective, which algorithm from where to where: the fastest, but the usual one where that is as good.
Json best_of(const std::vector<TimedCollective>& timed, int ranks, bool shared) {
  constexpr double kWorth = 0.97;  // of the usual one's time; less is noise
  Json best = Json::array();
  for (const Goal goal : kGoals) {
    std::map<std::size_t, std::vector<const TimedCollective*>> sizes;
    for (const auto& each : timed) {
      // Without a meeting nobody is told who is late: users ask for that, no profile does.
      if (const auto native = parse_native(each.goal, each.algorithm); each.goal == goal && (!native || native->meets)) sizes[each.bytes].push_back(&each);
    }
    // At a size where most of those were not timed that were at others, nobody won.
    std::vector<std::size_t> counts;
    for (const auto& [bytes, all] : sizes) counts.push_back(all.size());
    std::sort(counts.begin(), counts.end());
    std::erase_if(sizes, [&](const auto& size) { return 2 * size.second.size() < counts[counts.size() / 2]; });
    std::size_t from = 0;
    for (auto at = sizes.begin(); at != sizes.end(); ++at) {
      const auto usual = default_algorithm(goal, at->first, ranks, shared);
      const auto* winner = *std::min_element(at->second.begin(), at->second.end(), [](const auto* a, const auto* b) { return a->seconds < b->seconds; });
      for (const auto* each : at->second)
        if (each->algorithm == usual && winner->seconds > kWorth * each->seconds) winner = each;
      const auto next = std::next(at);
      const std::size_t to = next == sizes.end() ? kEnd : static_cast<std::size_t>(std::sqrt(static_cast<double>(std::max<std::size_t>(1, at->first)) * static_cast<double>(next->first)));
      if (!best.empty() && best.back()["collective"] == name(goal) && best.back()["algorithm"] == winner->algorithm)
        best.back()["to_bytes"] = to;
      else
        best.push_back({{"collective", name(goal)}, {"from_bytes", from}, {"to_bytes", to}, {"algorithm", winner->algorithm}});
      from = to;
    }
  }
  return best;
}

/// Along their sizes; in whole ns, so that what is read and written again stays the same.
Json points_of(const std::vector<TimedCollective>& timed, bool native) {
  std::map<std::pair<Goal, std::string>, std::map<std::size_t, double>> times;
  for (const auto& each : timed)
    if (is_native(each) == native) times[{each.goal, each.algorithm}][each.bytes] = each.seconds;
  Json all = Json::array();
  for (const auto& [which, points] : times) {
    Json list = Json::array();
    for (const auto& [bytes, seconds] : points) list.push_back({{"bytes", bytes}, {"time_us", std::round(seconds * 1e9) / 1e3}});
    all.push_back({{"collective", name(which.first)}, {"algorithm", which.second}, {"points", std::move(list)}});
  }
  return all;
}

/// Those that can still be fitted: not of a plug-in's algorithm that is not here.
std::vector<TimedCollective> timed_of(const Json& entry) {
  std::vector<TimedCollective> timed;
  for (const auto* list : {"timed", "native"})
    for (const auto& each : entries(entry, list)) {
      TimedCollective one{Goal::all_reduce, each.at("algorithm")};
      try {
        one.goal = goal_from_name(each.at("collective").get<std::string>());
        if (!is_native(one)) choose_algorithm(one.goal, one.algorithm);
      } catch (const Error&) {
        continue;
      }
      for (const auto& point : each.at("points")) {
        one.bytes = point.at("bytes").get<std::size_t>();
        one.seconds = point.at("time_us").get<double>() * 1e-6;
        if (one.seconds > 0) timed.push_back(one);
      }
    }
  return timed;
}

Json joined_entries(const Json& earlier, const Json& later) {
  const auto key = [](const TimedCollective& each) { return std::tuple(each.goal, each.algorithm, each.bytes); };
  auto timed = timed_of(later);
  std::set<std::tuple<Goal, std::string, std::size_t>> again;
  for (const auto& each : timed) again.insert(key(each));
  const auto now = timed.size();
  for (auto& each : timed_of(earlier))
    if (!again.contains(key(each))) timed.push_back(std::move(each));
  auto entry = later;
  if (timed.size() > now) {
    CommunicationPart like{later.at("transport"), later.at("ranks"), later.at("memory")};
    like.measured = later.value("measured", "");
    like.most_bytes = std::max(later.value("most_bytes", std::size_t{0}), earlier.value("most_bytes", std::size_t{0}));
    entry = to_json(fit_part(std::move(like), shares_memory(later.at("transport").get<std::string>()), timed).part);
  }
  // What older profiles chose by times that they did not keep, or of a library's own alone.
  std::set<std::string> known, kept;
  for (const auto& piece : later.at("best")) known.insert(piece.at("collective").get<std::string>());
  for (const auto& each : entries(earlier, "timed")) kept.insert(each.at("collective").get<std::string>());
  for (const auto& piece : entry.at("best"))
    if (kept.contains(piece.at("collective").get<std::string>())) known.insert(piece.at("collective").get<std::string>());
  std::erase_if(entry["best"].get_ref<Json::array_t&>(), [&](const Json& piece) { return !known.contains(piece.at("collective").get<std::string>()); });
  bool carried = false;
  for (const auto& piece : entries(earlier, "best"))
    if (!known.contains(piece.at("collective").get<std::string>())) {
      entry["best"].push_back(piece);
      // A library's own is priced by its times.
      carried |= !parse_native(goal_from_name(piece.at("collective").get<std::string>()), piece.at("algorithm").get<std::string>());
    }
  if (!carried) return entry;
  for (const auto* costs : {"rounds", "one_shot"})
    if (!entries(earlier, costs).empty()) entry[costs] = earlier.at(costs);
  return entry;
}

}  // namespace

FittedPart fit_part(CommunicationPart like, bool shared, const std::vector<TimedCollective>& timed) {
  FittedPart out{std::move(like)};
  auto& part = out.part;
  for (const auto& each : timed) {
    auto& row = out.rows.emplace_back();
    row.native = is_native(each);
    part.most_bytes = std::max(part.most_bytes, each.bytes);
    if (!row.native) row.sample = sample_of(each, part.ranks, shared, row.one_shot);
  }
  for (const bool one_shot : {false, true}) {
    std::vector<FitSample> samples;
    for (auto& row : out.rows)
      if (row.one_shot == one_shot && !row.native) {
        samples.push_back(row.sample);
        if (one_shot) samples.back().group = nullptr;
      }
    if (samples.empty()) continue;
    const auto fitted = fit(samples);
    std::size_t next = 0;
    for (auto& row : out.rows) {
      if (row.one_shot != one_shot || row.native) continue;
      row.fitted = fitted.seconds[next++];
      row.simulated = one_shot ? row.fitted : simulate(*row.sample.group, fitted.cost.at(row.sample.bytes), {}).seconds;
    }
    (one_shot ? part.one_shot : part.rounds) = fitted.cost;
    out.fits.push_back({one_shot, fitted.cost, fitted.error, held_out_error(samples)});
  }
  part.best = best_of(timed, part.ranks, shared);
  part.native = points_of(timed, true);
  part.timed = points_of(timed, false);
  return out;
}

Json joined(const Json& earlier, const Json& later) {
  if (!earlier.is_object()) return later;
  // What is damaged is mended by what was measured now.
  try {
    return joined_entries(earlier, later);
  } catch (const Json::exception&) {
    return later;
  } catch (const Error&) {
    return later;
  }
}

}  // namespace ddl
