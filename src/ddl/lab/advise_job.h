#pragma once

#include <map>
#include <string>
#include <vector>

#include "ddl/core/json.h"
#include "ddl/core/units.h"
#include "ddl/lab/config.h"
#include "ddl/lab/job_memory.h"
#include "ddl/nn/graph.h"
#include "ddl/predict/advise/verdict.h"
#include "ddl/predict/predict_step.h"

namespace ddl {

struct AdviceInput {
  const Experiment& experiment;   ///< as asked for: its strategy is one candidate among others, its workers the most that there are
  const ModelGraph& graph;
  const Json& machine;
  int per_node = 0;               ///< as predict_job()
  bool changes_results = false;   ///< ChoiceInput::changes_results
  Seconds budget{10};             ///< of the search, by the wall
  bool lossy = false;             ///< compressions of gradients, too
};

/// A candidate that was predicted.
struct AdvisedPoint {
  Spec strategy;
  std::map<std::string, std::string> keys = {};  ///< keys of the experiment that go with it
  int workers = 1;
  StepPrediction step = {};                      ///< without its trace
  double apart = 0;                              ///< StepInterval::apart
  double memory_bytes = 0;                       ///< what there is for a worker
  JobMemory memory = {};
  std::vector<std::string> beyond = {};         ///< what of it lies outside of what was measured, in words (beyond.h)
  double waited = 0;                             ///< as JobPrediction::waited
  bool asked = false;                            ///< the strategy that the experiment says
  std::string differs = {};                      ///< how what it trains differs from the global batch's gradient: "lossy", "stale", "local"; empty: it is that
  std::vector<int> stages = {};                  ///< layers of each stage, where `stages=` could tell others
  bool pareto = false;
  int rank = 0;                                  ///< by time, from 1; 0: does not fit
};

/// The strategy with nothing else said.
inline bool is_plain(const AdvisedPoint& point, const std::string& strategy) { return point.keys.empty() && point.strategy == Spec{strategy, {}}; }

inline Rated rated_of(const AdvisedPoint& point) { return {point.workers, point.step.seconds, point.apart, point.memory.fits, is_plain(point, "data") || is_plain(point, "single")}; }

struct RefusedPoint {
  Spec strategy;
  std::map<std::string, std::string> keys = {};
  int workers = 1;
  std::string reason;
  bool asked = false;
};

struct Advice {
  std::vector<AdvisedPoint> points;    ///< those that fit first, the fastest in front
  std::vector<std::size_t> fastest;    ///< numbers of the job's workers, those that compute fastest in front: of fewer workers the first are meant
  std::string transport;               ///< that joins processes, as was priced
  std::vector<RefusedPoint> refused;   ///< could not be planned, or something that they take was not measured
  double not_searched = 0;             ///< candidates that time was too short for
  int priced = 0;                      ///< of `points`, by their closed form alone
  double seconds = 0;                  ///< of the search
  Verdict verdict;                     ///< over `points`
};

/// Looks at strategies with their options (strategy/choices.h) at the job's number of workers and at 1, 2, 4, …, all of one global batch. Then boundaries of the fastest plans of stages are moved, layer by layer, for as
/// long as that makes a step shorter: workers that are unlike want unlike stages. Small plans are simulated at once; large ones are priced by their closed form, and of these the front and the fastest are simulated after.
/// A sixth of the budget is kept for either.
/// Errors: what makes even one worker impossible to predict (a profile that lacks a term); not_found where no candidate could be predicted, with the first reason.
Advice advise(const AdviceInput& input);

/// So many of the workers: the first of `fastest`, in the order in which they were asked for. The last stands for those that there are not.
std::vector<WorkerSpec> chosen_workers(const std::vector<WorkerSpec>& workers, const std::vector<std::size_t>& fastest, int count);

/// Cuts of as many stages in which one boundary lies `by` layers further on or back; each stage keeps one layer or more.
std::vector<std::vector<int>> moved_cuts(const std::vector<int>& stages, int by);

/// "data[bucket=5MiB] --accumulate 2": as it stands on a command line.
std::string in_words(const Spec& strategy, const std::map<std::string, std::string>& keys);

/// The cause that takes most of a worker's time beside computation, and its share; "" where there is none.
std::pair<std::string, double> largest_loss(const Ledger& ledger);

}  // namespace ddl
