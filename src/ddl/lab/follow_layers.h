#pragma once

#include "ddl/core/json.h"
#include "ddl/data/dataset.h"
#include "ddl/lab/config.h"
#include "ddl/nn/graph.h"

namespace ddl {

/// Where an experiment's strategy cuts the network by time: finds what its layers take, once and before any worker starts. As the machine's profile has it, where layers of those sorts were measured here: so a run is cut as it was predicted. Else measured (train/measure_layers.h) in a process of its own on this machine, as rank 0 will compute. What was found goes to all workers with the job. What cannot be measured, or with which there is no sound plan, is cut by
/// FLOPs; why, the record's messages say. An emulated rank 0 is not measured: its profile says it. Fills record["measured_layers"], null where nothing was measured.
void follow_measured_layers(Experiment& experiment, const ModelGraph& graph, const SampleShape& shape, Json& record);

/// The seconds of an emulated first worker's profile in the place of measured ones: what a job of that kind is cut by, in a run and in its prediction. Errors: those of profile_seconds().
void follow_profile(Job& job, const ModelGraph& graph);

}  // namespace ddl
