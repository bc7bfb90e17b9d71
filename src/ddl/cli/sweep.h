#pragma once

#include <string>

#include "ddl/cli/exit_codes.h"
#include "ddl/cli/plan.h"
#include "ddl/report/report.h"

namespace ddl {

/// What a study leaves for its reader: a page at `file`, where that is not empty, and how that and the table compare.
struct StudyReport {
  std::string file;
  Batches batches = Batches::apart;
};

/// Runs what is pending, writes the report over all records, prints the results.
Exit run_study(const std::string& name, const std::string& digest, const RunPlan& plan, Recorder& recorder,
               const StudyReport& report, const Output& output, AgentHub* launched);

}  // namespace ddl
