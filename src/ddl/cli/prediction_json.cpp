#include "ddl/cli/prediction_json.h"

namespace ddl {

void add_prediction(Json& out, const StepPrediction& step, std::int64_t batch, bool fits) {
  Json ledger = Json::object();
  for (std::size_t i = 0; i < kCauses; ++i) ledger[std::string(name(static_cast<Cause>(i)))] = step.mean.seconds[i] * 1e3;
  out["engine"] = step.engine == Engine::closed ? "closed" : "simulated";
  out["step_ms"] = {{"value", step.seconds * 1e3}, {"low", step.low * 1e3}, {"high", step.high * 1e3}};
  out["throughput"] = static_cast<double>(batch) / step.seconds;
  out["ledger_ms"] = std::move(ledger);
  out["memory_bytes"] = step.most.total();
  out["memory"] = {{"parameters", step.most.parameters}, {"gradients", step.most.gradients}, {"optimizer", step.most.optimizer}, {"buckets", step.most.buckets}, {"activations", step.most.activations}};
  out["fits"] = fits;
}

}  // namespace ddl
