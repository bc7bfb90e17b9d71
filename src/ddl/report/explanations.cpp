#include "ddl/report/explanations.h"

#include <algorithm>

namespace ddl {

std::optional<ExplanationView> explanation_of(const std::vector<Json>& documents, const RunView& run) {
  const auto found = std::find_if(documents.begin(), documents.end(), [&](const Json& each) { return !run.id.empty() && text_at(each, {"run"}) == run.id; });
  if (found == documents.end()) return std::nullopt;
  ExplanationView view;
  view.words = text_at(*found, {"words"});
  const auto workers = number_at(*found, {"loss", "workers"}), speedup = number_at(*found, {"loss", "speedup"}), open = number_at(*found, {"loss", "not_explained"});
  const auto* causes = find_at(*found, {"loss", "causes"});
  if (workers && speedup && open && causes != nullptr && causes->is_array()) {
    view.workers = *workers;
    view.speedup = *speedup;
    view.not_explained = *open;
    for (const auto& cause : *causes)
      if (const auto lost = number_at(cause, {"lost"}))
        view.parts.push_back({text_at(cause, {"cause"}), text_at(cause, {"words"}), *lost, number_at(cause, {"without", "step_ms"}), number_at(cause, {"without", "gain_ms"}), number_at(cause, {"without", "speedup"})});
  }
  view.predicted_ms = number_at(*found, {"prediction", "step_ms"});
  view.low_ms = number_at(*found, {"prediction", "low"});
  view.high_ms = number_at(*found, {"prediction", "high"});
  std::vector<std::array<double, 2>> terms;
  for (std::size_t i = 0; i < kCauses; ++i) {
    const auto cause = name(static_cast<Cause>(i));
    const auto predicted = number_at(*found, {"prediction", "ledger_ms", cause}), measured = number_at(*found, {"prediction", "measured_ledger_ms", cause});
    if (predicted && measured) terms.push_back({*predicted, *measured});
  }
  if (terms.size() == kCauses) view.terms = terms;
  view.measured_ms = number_at(*found, {"prediction", "measured_ms"});
  return view;
}

std::string loss_colour(const std::string& cause) {
  for (const auto& [known, colour] : {std::pair{"reached", "--cause-weight"}, {"fabric", "--cause-communication"}, {"latency", "--series-4"}, {"jitter", "--cause-wait"}, {"loader", "--cause-load"},
                                      {"bubble", "--cause-bubble"}, {"unequal", "--series-6"}, {"contention", "--cause-copy"}, {"compute", "--cause-forward"}, {"undivided", "--cause-update"}})
    if (cause == known) return std::string("var(") + colour + ")";
  return "var(--cause-residual)";
}

std::vector<std::pair<std::string, std::string>> losses_present(const std::vector<ExplanationView>& all) {
  std::vector<std::pair<std::string, std::string>> present;
  for (const auto& view : all)
    for (const auto& part : view.parts)
      if (part.lost != 0 && std::none_of(present.begin(), present.end(), [&](const auto& known) { return known.first == part.cause; })) present.emplace_back(part.cause, part.words);
  return present;
}

}  // namespace ddl
