#include "ddl/predict/validate/estimate.h"

#include <algorithm>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/predict/interval.h"

namespace ddl {
namespace {

/// How the work is divided is read from devices, dp, tp, pp and stages; the word of a row's strategy must not say another way.
void require_strategy(const MeasuredRow& row, std::vector<std::string>& notes) {
  const auto& word = row.strategy;
  const bool stages = row.pp > 1 || !row.stages.empty();
  const std::vector<std::string> known{"data", "hybrid", "pipeline", "single", "tensor"};
  if (word.empty() || word == "hybrid") return;
  if (std::find(known.begin(), known.end(), word) == known.end()) {
    notes.push_back(fmt::format("strategy '{}' is none that tables know ({}): what dp, tp and pp say is taken", word, join(known, " ")));
    return;
  }
  const bool as_told = word == "single" ? row.devices == 1 : word == "data" ? row.tp == 1 && !stages : word == "tensor" ? row.dp <= 1 && row.tp > 1 && !stages : row.dp <= 1 && row.tp == 1;
  if (!as_told)
    throw Error(Code::invalid_argument, fmt::format("strategy; got '{}' with {} devices, dp {}, tp {}, pp {}{}, expected hybrid, or the one way that those say", word, row.devices, row.dp == 0 ? "not told" : std::to_string(row.dp), row.tp, row.pp, row.stages.empty() ? "" : " and stages"));
}

}  // namespace

Estimate estimate_row(const MeasuredRow& printed, bool shapes) {
  std::vector<std::string> notes;
  auto row = printed;
  // What tp and pp leave of the devices.
  if (row.model == "gpt" && row.dp == 0) row.dp = std::max(1, static_cast<int>(row.devices / (std::int64_t{row.tp} * row.pp)));
  require_strategy(row, notes);
  auto out = row.model == "gpt" ? estimate_gpt(row, shapes) : estimate_images(row);
  out.notes.insert(out.notes.end(), notes.begin(), notes.end());
  return out;
}

std::pair<double, double> interval_of(const Estimate& estimate) { return interval_of(estimate.seconds, estimate.sigma); }

}  // namespace ddl
