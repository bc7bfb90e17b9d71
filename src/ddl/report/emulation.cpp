#include "ddl/report/emulation.h"

#include <algorithm>

#include <fmt/format.h>

namespace ddl {

std::string emulation_sentence(const Json& record) {
  const auto ranks = record.find("ranks");
  if (ranks == record.end() || !ranks->is_array()) return "";
  int workers = 0;
  double compute = 0, share = 0, p95 = 0, worst = 0;
  std::int64_t waits = 0;
  try {
    for (const auto& rank : *ranks) {
      const auto own = rank.find("emulation");
      if (own == rank.end() || !own->is_object()) continue;
      ++workers;
      compute = std::max(compute, own->at("compute_ms").get<double>());
      // What a server of parameters waits for its updates counts like what its worker waits.
      for (const auto& told : {*own, own->value("server", Json())}) {
        if (!told.is_object()) continue;
        share = std::max(share, told.at("late_share").get<double>());
        waits += told.at("waits").get<std::int64_t>();
        p95 = std::max(p95, told.at("late_us").at("p95").get<double>());
        worst = std::max(worst, told.at("late_us").at("max").get<double>());
      }
    }
  } catch (const Json::exception&) {
    return "";  // a newer version's
  }
  if (workers == 0) return "";
  return fmt::format("emulated: {} worker{} waited {} times in place of computing, up to {:.3g} ms a step; computing took {:.1f} % longer than the profile says at most; waits ended {:.3g} us late (p95), {:.3g} us at most",
                     workers, workers == 1 ? "" : "s", waits, compute, 100 * share, p95, worst);
}

}  // namespace ddl
