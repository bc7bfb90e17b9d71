#include "ddl/lab/predict_run.h"

#include <vector>

#include "ddl/core/error.h"
#include "ddl/core/statistics.h"
#include "ddl/lab/predict_job.h"
#include "ddl/predict/machine.h"
#include "ddl/predict/step/simulate_step.h"

namespace ddl {

Json no_prediction(const std::string& reason) {
  Json out = Json::object();
  for (const auto* key : {"step_ms", "low", "high", "error_pct", "measured_ms", "engine", "machine", "ledger_ms", "memory_bytes", "links", "waited", "beyond"}) out[key] = nullptr;
  out["reason"] = reason;
  return out;
}

Json predict_run(const Experiment& experiment, const ModelGraph& graph, const Json& environment) {
  auto out = no_prediction("");
  out["reason"] = nullptr;
  try {
    if (experiment.subject != "ddlbench") throw Error(Code::unsupported, fmt::format("only ddlbench's own steps are predicted, not {}'s", experiment.subject));
    const auto found = predict_job(experiment.job, graph, measured_here(environment));
    out["step_ms"] = found.step.seconds * 1e3;
    out["low"] = found.step.low * 1e3;
    out["high"] = found.step.high * 1e3;
    out["engine"] = name(found.step.engine);
    out["machine"] = default_machine_path();
    out["ledger_ms"] = ledger_json(found.step.mean);
    out["memory_bytes"] = found.step.most.total();
    out["waited"] = found.waited;
    out["beyond"] = found.beyond;
    out["links"] = links_json(found.links, found.step.seconds);
  } catch (const std::exception& error) {
    return no_prediction(error.what());
  }
  return out;
}

double usual_step(const Plan& plan, std::span<const double> measured) {
  const auto round = static_cast<std::size_t>(steps_to_simulate(plan).round);
  std::vector<double> rounds;
  for (std::size_t first = 0; first + round <= measured.size(); first += round) rounds.push_back(mean(measured.subspan(first, round)));
  return rounds.empty() ? mean(measured) : median(rounds);
}

void judge_prediction(Json& prediction, const Plan& plan, std::span<const double> measured) {
  if (!prediction.is_object() || !prediction.at("step_ms").is_number() || measured.empty()) return;
  const double took = usual_step(plan, measured);
  prediction["measured_ms"] = took;
  prediction["error_pct"] = took > 0 ? Json(100 * (prediction["step_ms"].get<double>() / took - 1)) : Json(nullptr);
}

}  // namespace ddl
