#pragma once

#include "ddl/core/json.h"
#include "ddl/lab/config.h"
#include "ddl/lab/stored_samples.h"
#include "ddl/nn/graph.h"

namespace ddl {

/// A step that nobody ran, as a record has a run's: `config`, `plan`, `stages`, `ranks`, and the simulator's `trace` of every worker, with `trace_steps`; of steps that run into each other several. What exporters of traces
/// (report/export.h) make their files of. `id` is "predicted".
/// Errors: those of predict_job(); unsupported for more workers than traces are written of.
Json predicted_trace(const Experiment& experiment, const ModelGraph& graph, const Json& machine, int per_node = 0, const StoredSamples& stored = {});

}  // namespace ddl
