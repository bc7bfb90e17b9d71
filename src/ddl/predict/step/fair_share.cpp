#include "ddl/predict/step/fair_share.h"

#include <algorithm>

#include "ddl/core/error.h"

namespace ddl {

std::size_t FairShare::start(double seconds, const std::vector<Demand>& demands, double now) {
  std::size_t number = work_.size();
  if (free_.empty()) {
    work_.emplace_back();
  } else {
    number = free_.back();
    free_.pop_back();
  }
  auto& work = work_[number];
  work.left = seconds;
  work.rate = 1;
  work.since = now;
  work.demands = demands;
  work.under_way = true;
  for (const auto& demand : demands) {
    invariant(demand.share > 0, "a demand is a share of a resource");
    users_.at(static_cast<std::size_t>(demand.resource)).push_back(number);
  }
  // Most has what it wants to itself, and nobody's rate changes.
  const bool alone = std::all_of(demands.begin(), demands.end(), [&](const Demand& demand) { return demand.share <= 1 && users_[static_cast<std::size_t>(demand.resource)].size() == 1; });
  if (alone)
    push_end(number);
  else
    share_again(neighbours(demands), now);
  return number;
}

std::optional<std::pair<double, std::size_t>> FairShare::next() {
  while (!ends_.empty()) {
    const auto end = ends_.top();
    const auto& work = work_[end.number];
    if (work.under_way && work.version == end.version) return std::pair(end.time, end.number);
    ends_.pop();
  }
  return std::nullopt;
}

void FairShare::finish(std::size_t number, double now) {
  auto& work = work_[number];
  work.under_way = false;
  ++work.version;
  bool shared = false;
  for (const auto& demand : work.demands) {
    auto& users = users_[static_cast<std::size_t>(demand.resource)];
    users.erase(std::find(users.begin(), users.end(), number));
    shared |= !users.empty();
  }
  free_.push_back(number);
  if (shared) share_again(neighbours(work.demands), now);
}

std::vector<std::size_t> FairShare::neighbours(const std::vector<Demand>& demands) {
  std::vector<std::size_t> found;
  const auto mark = [&](const std::vector<Demand>& through) {
    for (const auto& demand : through)
      for (const auto user : users_[static_cast<std::size_t>(demand.resource)])
        if (!work_[user].marked) {
          work_[user].marked = true;
          found.push_back(user);
        }
  };
  mark(demands);
  for (std::size_t i = 0; i < found.size(); ++i) mark(work_[found[i]].demands);
  for (const auto number : found) work_[number].marked = false;
  return found;
}

/// Progressive filling: the rates of all rise together; those whose resource is used up first stay at that, and so on.
void FairShare::share_again(const std::vector<std::size_t>& of, double now) {
  room_.resize(users_.size());
  wanted_.resize(users_.size());
  std::vector<int> resources;
  for (const auto number : of) {
    auto& work = work_[number];
    work.left = std::max(0.0, work.left - work.rate * (now - work.since));
    work.since = now;
    for (const auto& demand : work.demands) {
      room_[static_cast<std::size_t>(demand.resource)] = 1;
      wanted_[static_cast<std::size_t>(demand.resource)] = 0;
      resources.push_back(demand.resource);
    }
  }
  std::sort(resources.begin(), resources.end());
  resources.erase(std::unique(resources.begin(), resources.end()), resources.end());
  auto open = of;
  for (const auto number : open)
    for (const auto& demand : work_[number].demands) wanted_[static_cast<std::size_t>(demand.resource)] += demand.share;
  // What rounding makes of a resource that is just used up.
  constexpr double kAlmost = 1 + 1e-12;
  while (!open.empty()) {
    double level = 1;
    for (const int resource : resources)
      if (const auto r = static_cast<std::size_t>(resource); wanted_[r] > 0) level = std::min(level, std::max(0.0, room_[r]) / wanted_[r]);
    std::vector<std::size_t> rest, settled;
    for (const auto number : open) {
      const bool full = level >= 1 || std::any_of(work_[number].demands.begin(), work_[number].demands.end(), [&](const Demand& demand) {
                          const auto r = static_cast<std::size_t>(demand.resource);
                          return room_[r] <= level * wanted_[r] * kAlmost;
                        });
      (full ? settled : rest).push_back(number);
    }
    for (const auto number : settled) {
      work_[number].rate = level;
      for (const auto& demand : work_[number].demands) {
        room_[static_cast<std::size_t>(demand.resource)] -= demand.share * level;
        wanted_[static_cast<std::size_t>(demand.resource)] -= demand.share;
      }
    }
    // Demands that were taken away again leave a rest of rounding, which nobody wants.
    for (const int resource : resources)
      if (const auto r = static_cast<std::size_t>(resource); wanted_[r] < 1e-12) wanted_[r] = 0;
    invariant(!settled.empty(), "each turn of filling settles someone");
    open = std::move(rest);
  }
  for (const auto number : of) push_end(number);
}

void FairShare::push_end(std::size_t number) {
  auto& work = work_[number];
  ++work.version;
  ends_.push({work.since + (work.left > 0 ? work.left / work.rate : 0), number, work.version});
}

}  // namespace ddl
