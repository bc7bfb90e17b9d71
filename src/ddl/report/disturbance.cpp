#include "ddl/report/disturbance.h"

#include <algorithm>

#include <fmt/format.h>

namespace ddl {
namespace {

/// Less than what runs of the same differ by anyway.
constexpr double kLittle = 0.02;

}  // namespace

std::string disturbance_sentence(const Json& record) {
  const auto ranks = record.find("ranks");
  if (ranks == record.end() || !ranks->is_array()) return "";
  double stolen = 0;
  int worst = 0;
  for (const auto& rank : *ranks) {
    const auto told = rank.find("cores");
    if (told == rank.end() || !told->is_object() || !told->value("stolen_share", Json()).is_number()) continue;
    const double share = told->at("stolen_share");
    if (share <= stolen) continue;
    stolen = share;
    worst = rank.value("rank", 0);
  }
  if (stolen <= kLittle) return "";
  return fmt::format("disturbed: the hypervisor gave {:.0f} % of the time of rank {}'s machine to others while this ran; another run will tell other figures", 100 * stolen, worst);
}

}  // namespace ddl
