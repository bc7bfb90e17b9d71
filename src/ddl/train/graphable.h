#pragma once

#include <string>

#include "ddl/nn/graph.h"
#include "ddl/plan/plan.h"

namespace ddl {

/// Why the passes of a worker cannot be graphs of its device, whatever the device: empty where they can be.
std::string why_no_pass_graphs(const Plan& plan, int worker, const ModelGraph& graph);

}  // namespace ddl
