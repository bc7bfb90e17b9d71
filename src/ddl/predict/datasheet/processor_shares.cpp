#include "ddl/predict/datasheet/processor_shares.h"

#include <algorithm>
#include <cmath>

#include "ddl/core/error.h"
#include "ddl/predict/datasheet/library.h"

namespace ddl {
namespace {

/// Of the peak, where nothing is saved: what the largest of oneDNN's matrix products reach.
constexpr double kMostOfProducts = 0.95;

[[noreturn]] void corrupt(const Json& machine, const std::string& why) {
  throw Error(Code::corrupt, fmt::format("[machine] {}: device.efficiency.compute: {}; expected a share of the peak, or a list of [microseconds at the peak, share], both above 0, in ascending order of the first", machine.value("name", "?"), why));
}

std::vector<std::pair<double, double>> read_list(const Json& machine, const Json& list) {
  if (list.empty()) corrupt(machine, "got an empty list");
  std::vector<std::pair<double, double>> out;
  for (const auto& point : list) {
    const bool two = point.is_array() && point.size() == 2 && point[0].is_number() && point[1].is_number();
    if (!two || point[0].get<double>() <= 0 || point[1].get<double>() <= 0) corrupt(machine, fmt::format("got {}", point.dump()));
    out.emplace_back(std::log(point[0].get<double>() * 1e-6), point[1].get<double>());
    if (out.size() > 1 && out.back().first <= out[out.size() - 2].first) corrupt(machine, fmt::format("got {} after {}", point.dump(), list[out.size() - 2].dump()));
  }
  return out;
}

}  // namespace

ProcessorShares ProcessorShares::read(const Json& machine) {
  ProcessorShares out;
  const auto device = machine.value("device", Json::object()), efficiency = device.value("efficiency", Json::object());
  if (const auto list = efficiency.find("compute"); list != efficiency.end() && list->is_array()) out.compute_ = read_list(machine, *list);
  else out.compute_ = {{0.0, term(machine, "device.efficiency.compute")}};
  out.memory_ = term(machine, "device.efficiency.memory");
  out.call_ = term(machine, "device.efficiency.call_us") * 1e-6;
  return out;
}

double ProcessorShares::compute(double seconds_at_peak, bool convolves) const {
  const double at = std::log(std::max(seconds_at_peak, 1e-30));
  const auto above = std::find_if(compute_.begin(), compute_.end(), [&](const auto& point) { return point.first >= at; });
  double share = above == compute_.end() ? compute_.back().second : above->second;
  if (above != compute_.begin() && above != compute_.end()) {
    const auto& below = *(above - 1);
    share = below.second + (above->second - below.second) * (at - below.first) / (above->first - below.first);
  }
  return convolves ? share : std::min(share, kMostOfProducts);
}

}  // namespace ddl
