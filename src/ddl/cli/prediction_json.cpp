#include "ddl/cli/prediction_json.h"

#include "ddl/lab/predict_job.h"

namespace ddl {

void add_prediction(Json& out, const StepPrediction& step, std::int64_t batch, const JobMemory& memory) {
  out["engine"] = name(step.engine);
  out["step_ms"] = {{"value", step.seconds * 1e3}, {"low", step.low * 1e3}, {"high", step.high * 1e3}};
  out["throughput"] = static_cast<double>(batch) / step.seconds;
  out["ledger_ms"] = ledger_json(step.mean);
  out["memory_bytes"] = {{"parameters", step.most.parameters}, {"gradients", step.most.gradients}, {"optimizer", step.most.optimizer}, {"buckets", step.most.buckets}, {"activations", step.most.activations}};
  out["memory_total_bytes"] = step.most.total();
  out["memory_interval_bytes"] = {{"low", memory.low}, {"high", memory.high}};
  out["fits"] = memory.fits;
  out["fits_surely"] = memory.surely;
}

}  // namespace ddl
