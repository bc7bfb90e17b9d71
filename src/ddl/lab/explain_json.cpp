#include <string>

#include "ddl/lab/explain_run.h"

namespace ddl {
namespace {

Json ledger_json(const Ledger& ledger) {
  Json out = Json::object();
  for (std::size_t c = 0; c < kCauses; ++c) out[std::string(name(static_cast<Cause>(c)))] = ledger.seconds[c] * 1e3;
  return out;
}

Json loss_json(const RunExplanation& run) {
  const auto& loss = *run.loss;
  Json causes = Json::array(), not_known = Json::array(), worker_steps = Json::array();
  for (const double each : loss.worker_steps) worker_steps.push_back(each * 1e3);
  for (const auto& part : loss.parts)
    causes.push_back({{"cause", name(part.cause)},
                      {"words", words(part.cause)},
                      {"lost", part.lost},
                      {"without", {{"step_ms", part.step_without * 1e3}, {"gain_ms", (loss.simulated - part.step_without) * 1e3}, {"speedup", part.speedup_without}}}});
  for (const auto cause : loss.not_known) not_known.push_back(name(cause));
  return {{"workers", loss.workers},
          {"speedup", loss.speedup},
          {"ideal", loss.workers},
          {"loss", loss.loss()},
          {"apart", loss.apart},
          {"worker_step_ms", worker_steps},
          {"step_ms", loss.measured * 1e3},
          {"simulated_ms", loss.simulated * 1e3},
          {"one_worker", {{"run", run.one_worker.empty() ? Json(nullptr) : Json(run.one_worker)}, {"step_ms", loss.one.seconds() * 1e3}, {"compute_ms", loss.one.compute * 1e3}, {"load_ms", loss.one.load * 1e3}, {"other_ms", loss.one.other * 1e3}}},
          {"causes", causes},
          {"not_explained", loss.not_explained},
          {"not_known", not_known},
          {"drawn_steps", loss.drawn}};
}

Json straggler_json(const Straggler& found) {
  return {{"rank", found.worker == kNone ? Json(nullptr) : Json(found.worker)}, {"late_ms", found.late * 1e3}, {"error_ms", found.error * 1e3}, {"steps", found.steps},
          {"task", found.worker == kNone ? Json(nullptr) : Json(found.task)}, {"task_late_ms", found.worker == kNone ? Json(nullptr) : Json(found.task_late * 1e3)}};
}

}  // namespace

Json to_json(const RunExplanation& run) {
  Json ranks = Json::array();
  for (const auto& rank : run.record.at("ranks")) ranks.push_back({{"rank", rank.at("rank")}, {"wall_ms", rank.at("wall_ms")}, {"ledger_ms", rank.at("ledger_ms")}});
  Json out{{"schema", "ddlbench.explain/1"}, {"run", run.record.value("id", Json())}, {"words", in_words(run)}, {"ranks", ranks}, {"ledger_ms", ledger_json(*run.ledger)}};
  out["loss"] = run.loss ? loss_json(run) : Json(nullptr);
  if (!run.loss) out["no_loss"] = run.no_loss;
  out["straggler"] = run.straggler ? straggler_json(*run.straggler) : Json(nullptr);
  out["advice"] = run.advice.empty() ? Json(nullptr) : Json{{"cause", name(run.advised.cause)}, {"words", run.advice}};
  out["prediction"] = nullptr;
  if (run.foreseen) {
    Json difference = Json::object();
    for (std::size_t c = 0; c < kCauses; ++c) difference[std::string(name(static_cast<Cause>(c)))] = (run.foreseen->mean.seconds[c] - run.foreseen->measured.seconds[c]) * 1e3;
    out["prediction"] = {{"step_ms", run.foreseen->seconds * 1e3}, {"low", run.foreseen->low * 1e3}, {"high", run.foreseen->high * 1e3}, {"beyond", run.foreseen->beyond}, {"ledger_ms", ledger_json(run.foreseen->mean)},
                         {"measured_ms", run.foreseen->measured.wall * 1e3}, {"measured_ledger_ms", ledger_json(run.foreseen->measured)},
                         {"predicted_minus_measured_ms", difference}};
  } else {
    out["no_prediction"] = run.no_prediction;
  }
  out["notes"] = run.notes;
  return out;
}

}  // namespace ddl
