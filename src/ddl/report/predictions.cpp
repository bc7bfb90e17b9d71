#include "ddl/report/predictions.h"

#include <fmt/format.h>

#include "ddl/report/format.h"
#include "ddl/report/report.h"

namespace ddl {

std::optional<PredictionView> prediction_of(const RunView& run) {
  const auto part = [&](std::string_view key) { return number_at(*run.record, {"prediction", key}); };
  const auto step = part("step_ms"), low = part("low"), high = part("high"), measured = part("measured_ms"), error = part("error_pct");
  if (!step || !low || !high || !measured || !error) return std::nullopt;
  PredictionView view{*step, *low, *high, *measured, *error, part("waited").value_or(0)};
  for (const auto& words : run.record->at("prediction").value("beyond", Json::array()))
    if (words.is_string()) view.beyond.push_back(words.get<std::string>());
  return view;
}

std::string in_error(double percent) { return fmt::format("{:+.1f} %", percent); }

std::string prediction_sentence(const RunView& run, const PredictionView& prediction) {
  // As much as probe compute complains of.
  constexpr double kBesideOthers = 0.02;
  return fmt::format("{}: predicted {} ms ({} to {}), measured {} ms: {}{}", run.label, in_figures(prediction.step), in_figures(prediction.low), in_figures(prediction.high),
                     in_figures(prediction.measured), in_error(prediction.error_pct),
                     prediction.waited > kBesideOthers ? fmt::format("; the interval is wide for a profile that was measured while others had the cores {} of the time", in_percent(prediction.waited)) : "");
}

std::vector<std::string> beyond_sentences(const RunView& run, const PredictionView& prediction) {
  std::vector<std::string> out;
  for (const auto& words : prediction.beyond) out.push_back(fmt::format("{}: {}", run.label, words));
  return out;
}

std::string render_predictions(const std::vector<Json>& records) {
  std::string out;
  for (const auto& view : view_runs(records))
    if (const auto prediction = prediction_of(view)) {
      out += prediction_sentence(view, *prediction) + "\n";
      for (const auto& sentence : beyond_sentences(view, *prediction)) out += sentence + "\n";
    }
  return out;
}

}  // namespace ddl
