#pragma once

#include <cstdint>
#include <string>

#include "ddl/core/json.h"
#include "ddl/predict/predict_step.h"

namespace ddl {

/// What predict and advise say of a step, under the names that scripts rely on: engine, step_ms, throughput, ledger_ms, memory_bytes, memory, fits.
void add_prediction(Json& out, const StepPrediction& step, std::int64_t batch, bool fits);

}  // namespace ddl
