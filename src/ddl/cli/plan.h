#pragma once

#include <string>
#include <vector>

#include "ddl/cli/runner.h"

namespace ddl {


/// What there is to do of a set of experiments.
struct RunPlan {
  std::vector<Pending> pending;
  std::vector<Json> done;  ///< records that are kept as they are
};

/// One run per experiment and repeat. Runs of the same identity that are ok in `store` count as done unless `fresh`;
/// those planned but never begun keep their ids. Errors: those of dataset_digest().
RunPlan plan_runs(const std::vector<Experiment>& experiments, Store* store, bool fresh);

/// The experiment that a record was made of. Errors: corrupt.
Experiment experiment_of(const Json& record);

/// A study by path, or by the name of one that ships with ddlbench or stands in ./studies. Errors: not_found.
std::string find_study(const std::string& path_or_name);
/// Folders where studies are looked for.
std::vector<std::string> study_folders();

}  // namespace ddl
