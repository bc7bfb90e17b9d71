#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "ddl/core/json.h"
#include "ddl/lab/job_memory.h"
#include "ddl/lab/predict_links.h"
#include "ddl/lab/stored_samples.h"
#include "ddl/nn/graph.h"
#include "ddl/plan/plan.h"
#include "ddl/predict/machine.h"
#include "ddl/predict/measured/measured_machine.h"
#include "ddl/predict/predict_step.h"
#include "ddl/predict/step/cost_source.h"
#include "ddl/strategy/bucketing.h"
#include "ddl/train/job.h"

namespace ddl {

/// A machine profile by its name or file, a datasheet's with its layout in brackets (machine_layout.h); of "": this machine's own, as probe measured it. Errors: not_found, saying what there is, or what measures it; corrupt;
/// those of machine_laid_out().
Json machine_called(const std::string& asked);

/// What a machine takes for the parts of a job's steps.
struct JobCosts {
  std::unique_ptr<CostSource> source;
  const MeasuredMachine* measured = nullptr;  ///< what in it was measured of real workers and wires; null where all is of datasheets
  bool by_worker = false;   ///< PredictionInput::by_worker
  bool unlike = false;      ///< PredictionInput::unlike
  double memory_bytes = 0;  ///< what there is for one worker, the one that has least
  std::vector<double> memory_of = {};  ///< by worker
  std::vector<bool> gpus = {};         ///< by worker: whether it is one, or stands for one
  std::vector<const MeasuredMachine*> stands_for = {};  ///< by worker: what was measured of the device that it emulates; null of others. Empty where no worker has a pace of its own
  int per_node = 0;                    ///< as it was given
};
/// Of passes as the job asks for them: as graphs where such are on (job_on()).
/// `per_node`: devices that share a node, or a host; 0: as the profile says, all on one host where it was measured. Errors: those of MeasuredMachine and datasheet_source().
JobCosts job_costs(const Job& job, const Json& machine, int per_node = 0);

/// The job as it runs on the machine. Measured: with graphs of devices off where its workers' passes cannot be such (why_no_pass_graphs()), or no device has any. Of a GPU's datasheet, whose costs know no graphs: its workers that are not
/// emulated are such GPUs, whatever computes here.
Job job_on(Job job, const ModelGraph& graph, const Json& machine);

/// plan_job(), in which the time of activations that are computed again is told, too: where one stage is run again in segments plans leave that to who executes them. Stages that a run cuts by what
/// layers take are cut by what the source says of worker 0's, unless the job has them measured.
/// Errors: of the plan; of the source; invalid_argument where workers outnumber the samples of a batch; unsupported of a network that is a TorchScript file.
Plan planned_job(const Job& job, const ModelGraph& graph, const CostSource& source);

struct JobPrediction {
  Plan plan;
  StepPrediction step;
  JobMemory memory;  ///< of the worker that holds most
  JobLinks links;    ///< what a step moves
  std::vector<std::string> beyond = {};  ///< what of it lies outside of what was measured, in words (beyond.h)
  std::optional<Bucketing> tuned = {};  ///< of bucket=auto: with what a step is predicted to be fastest
  double waited = 0; ///< share of the time in which others had the cores while the profile was measured; the interval is the wider for it
};
/// With bucket=auto, of the sizes and overlaps that a run tries the one that is predicted to be fastest.
/// Errors: of the plan; not_found for what was not measured, naming the term and the probe; invalid_argument where workers outnumber the samples of a batch.
JobPrediction predict_job(const Job& job, const ModelGraph& graph, const Json& machine, Engine engine = Engine::automatic, int per_node = 0, const StoredSamples& stored = {});

/// Above that a profile was measured beside other work: what it says is told with a word on it.
inline constexpr double kBesideOthers = 0.02;
/// "the profile was measured while others had the cores 12 % of the time: the interval is wider for it; …"; empty where it was not.
std::string waited_words(double waited);

/// "closed" or "simulated"; "auto".
std::string_view name(Engine engine);
/// Milliseconds by cause.
Json ledger_json(const Ledger& ledger);

}  // namespace ddl
