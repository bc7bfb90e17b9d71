#pragma once

#include <vector>

#include "ddl/lab/config.h"

namespace ddl {

/// Sets `name` of each experiment: its model and workers; its strategy, batch and whatever else is compared, where the study has more than one of
/// it; then the keys that tell apart what the words before did not.
/// What cannot matter is left out (the transport of one worker), unless nothing else tells two apart.
void name_experiments(std::vector<Experiment>& experiments);

}  // namespace ddl
