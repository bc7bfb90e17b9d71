#pragma once

#include <string>
#include <vector>

#include "ddl/cli/exit_codes.h"
#include "ddl/cli/progress.h"
#include "ddl/cli/recorder.h"
#include "ddl/lab/config.h"
#include "ddl/report/report.h"

namespace ddl {

/// One run to be made: an experiment and the record it starts from.
struct Pending {
  Experiment experiment;
  Json record;  ///< as planned_record() makes it
};

/// Runs one experiment: keeps its record as `running`, then as what came of it. The record has the id, study and case
/// that were planned. `launched`: as run_experiment(). Errors: what makes the experiment impossible to start; the record says `failed` then.
Json run_one(const Pending& pending, Recorder& recorder, ProgressLine& progress, AgentHub* launched, Nanoseconds requested = 0);

/// What came of a set of runs.
struct Outcome {
  std::vector<Json> records;  ///< of those that were run now, in order
  Exit exit = Exit::ok;
};

/// Runs all, one after the other; a failure does not keep the next from running, an interrupt does.
Outcome run_all(const std::vector<Pending>& pending, Recorder& recorder, const Output& output, AgentHub* launched);

/// For people, on standard error: the table of `records` and where the time went.
void say_results(const std::vector<Json>& records, const Output& output, Batches batches = Batches::apart);

/// `case: state: reason` of each run that is not ok.
void say_failures(const std::vector<Json>& records, const Output& output);

}  // namespace ddl
