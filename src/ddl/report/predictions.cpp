#include "ddl/report/predictions.h"

#include <fmt/format.h>

#include "ddl/report/format.h"
#include "ddl/report/report.h"

namespace ddl {

std::optional<PredictionView> prediction_of(const RunView& run) {
  const auto part = [&](std::string_view key) { return number_at(*run.record, {"prediction", key}); };
  const auto step = part("step_ms"), low = part("low"), high = part("high"), measured = part("measured_ms"), error = part("error_pct");
  if (!step || !low || !high || !measured || !error) return std::nullopt;
  return PredictionView{*step, *low, *high, *measured, *error, part("waited").value_or(0)};
}

std::string in_error(double percent) { return fmt::format("{:+.1f} %", percent); }

std::string prediction_sentence(const RunView& run, const PredictionView& prediction) {
  // As much as probe compute complains of.
  constexpr double kBesideOthers = 0.02;
  return fmt::format("{}: predicted {} ms ({} to {}), measured {} ms: {}{}", run.label, in_figures(prediction.step), in_figures(prediction.low), in_figures(prediction.high),
                     in_figures(prediction.measured), in_error(prediction.error_pct),
                     prediction.waited > kBesideOthers ? fmt::format("; the interval is wide for a profile that was measured while others had the cores {} of the time", in_percent(prediction.waited)) : "");
}

std::string render_predictions(const std::vector<Json>& records) {
  std::string out;
  for (const auto& view : view_runs(records))
    if (const auto prediction = prediction_of(view)) out += prediction_sentence(view, *prediction) + "\n";
  return out;
}

}  // namespace ddl
