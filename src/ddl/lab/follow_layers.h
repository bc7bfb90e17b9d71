#pragma once

#include "ddl/core/json.h"
#include "ddl/data/dataset.h"
#include "ddl/lab/config.h"
#include "ddl/nn/graph.h"

namespace ddl {

/// Where an experiment's strategy cuts the network by time: measures what its layers take (train/measure_layers.h), once and before any worker starts, in a process of its
/// own on this machine, as rank 0 will compute. What was found goes to all workers with the job. What cannot be measured, or with which there is no sound plan, is cut by
/// FLOPs; why, the record's messages say. Fills record["measured_layers"], null where nothing was measured.
void follow_measured_layers(Experiment& experiment, const ModelGraph& graph, const SampleShape& shape, Json& record);

}  // namespace ddl
