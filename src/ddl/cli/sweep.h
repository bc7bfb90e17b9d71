#pragma once

#include <string>

#include "ddl/cli/exit_codes.h"
#include "ddl/cli/plan.h"

namespace ddl {

/// Runs what is pending, writes `report` (a path, or nothing) over all records, prints the results.
Exit run_study(const std::string& name, const std::string& digest, const RunPlan& plan, Recorder& recorder,
               const std::string& report, const Output& output, AgentHub* launched);

}  // namespace ddl
