#pragma once

#include <string>
#include <vector>

#include "ddl/core/json.h"
#include "ddl/lab/chakra_trace.h"
#include "ddl/lab/config.h"

namespace ddl {

/// What computation took in execution traces of one step, a file a rank, as parts of a machine profile (docs/machine.md): `ddlbench.probe/1` of kind import, with `compute`, and where the traces say so
/// `optimizer` and `launch`; `left_out`: nodes that say nothing of a layer; `untold`: layers without weights that no node names, whose time is taken to be within the others'; `environment` of the traced machine, null where that is not known.
///  - Traces of ours say what was run, and which stage and micro-batch a node is of. A stage's seconds are divided among its layers as a datasheet's estimate of them is: sums are measured, parts are not.
///  - Of others a node is known by its name: that of a layer and a direction, `conv1 forward`. What was run is for `told` to say: model, dataset, batch (of one worker), precision.
/// Errors: invalid_argument where it is not known what was run, where layers are split among workers or computed again, and where some layer's time is in none of the traces.
Json import_chakra(const std::vector<ChakraTrace>& traces, const Settings& told);

}  // namespace ddl
