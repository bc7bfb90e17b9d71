#pragma once

#include <cstdint>
#include <string>

#include "ddl/core/json.h"
#include "ddl/lab/job_memory.h"
#include "ddl/predict/predict_step.h"

namespace ddl {

/// What predict and advise say of a step, under the names that scripts rely on: engine, step_ms, throughput, ledger_ms, memory_bytes, memory_total_bytes, memory_interval_bytes, fits, fits_surely.
void add_prediction(Json& out, const StepPrediction& step, std::int64_t batch, const JobMemory& memory);

}  // namespace ddl
