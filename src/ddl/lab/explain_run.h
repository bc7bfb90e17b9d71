#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ddl/core/json.h"
#include "ddl/lab/config.h"
#include "ddl/lab/store.h"
#include "ddl/measure/ledger.h"
#include "ddl/nn/graph.h"
#include "ddl/plan/plan.h"
#include "ddl/predict/explain/loss.h"
#include "ddl/predict/explain/straggler.h"

namespace ddl {

/// What the strategy of another run of the same work would take for granted: one worker's run of the same network, data, batch and arithmetic.
bool is_one_worker_of(const Json& one, const Json& record);
/// The newest such run of a store.
std::optional<Json> find_one_worker(const Store& store, const Json& record);

/// What a machine profile said of a run's steps, before or after them.
struct ForeseenStep {
  double seconds = 0, low = 0, high = 0;
  Ledger mean;  ///< over workers
  Ledger measured = {};  ///< that these are held against: the run's usual step (predict_run.h), divided as traced steps that took about as long, or, where these are few, as its mean is. Of workers that step by themselves the mean
  std::vector<std::string> beyond = {};  ///< what of it lies outside of what was measured, in words (beyond.h)
};

/// One run, explained. What could not be told says why.
struct RunExplanation {
  Json record;                           ///< that is explained
  std::optional<Experiment> experiment;  ///< of our own subject
  std::optional<Ledger> ledger;          ///< s, mean over workers and measured steps
  std::optional<LossReport> loss;
  std::optional<Straggler> straggler;
  std::string one_worker;                ///< id of the run that the speed-up is over; empty: told from the trace
  std::optional<ForeseenStep> foreseen;
  std::string advice;                    ///< the first thing to try; empty: nothing is worth it
  CausePart advised;                     ///< what that is against
  std::string no_loss, no_prediction;    ///< why there is none
  std::vector<std::string> notes;
};

/// `one`: a run of one worker to compare with; null: none is known. `machine`: a profile's name or file; "": this machine's own, where there is one.
/// Errors: not_found for a run of which no trace was kept; corrupt; those of a profile that was asked for.
RunExplanation explain_run(const Json& record, const Json* one, const std::string& machine);

/// The plan that a run's trace is of, its buckets as they were cut anew after the first step. Errors: unsupported where this build plans it otherwise, saying where.
Plan plan_of_run(const Json& record, Job& job, const ModelGraph& graph);
/// The traced steps after warm-up. Errors: corrupt.
std::vector<TracedStep> traced_steps(const Json& record, int workers);
/// Mean over ranks of their ledgers; absent where the run has none.
std::optional<Ledger> mean_ledger(const Json& record);

/// One paragraph.
std::string in_words(const RunExplanation& run);
/// `ddlbench.explain/1` (docs/explain.md).
Json to_json(const RunExplanation& run);

}  // namespace ddl
