#pragma once

#include "ddl/lab/beyond.h"

namespace ddl {

/// What of a prediction by a datasheet no measured step had that such predictions were held against (docs/validation.md, "What `predict` says of these rows"), and what of the job it leaves out.
Beyond beyond_datasheet(const Job& job, const Plan& plan, const ModelGraph& part, const Json& machine, int per_node, const StepPrediction& step);

}  // namespace ddl
