#pragma once

#include <vector>

#include "ddl/nn/graph.h"
#include "ddl/plan/plan.h"
#include "ddl/train/job.h"

namespace ddl {

/// One step of the job by its strategy. `gradient_order`: as StrategyInput has it; empty: not known yet.
/// Errors: those of the strategy, the precision and the optimizer.
Plan plan_job(const Job& job, const ModelGraph& graph, std::vector<int> gradient_order = {});

/// What each worker of such a plan is planned to hold: of unequal shares of a batch its own, where the plan's role tells the largest.
std::vector<Holdings> holdings_by_worker(const Job& job, const ModelGraph& graph, const Plan& plan);

/// Whether networks without convolutions in groups have planes of maps one after the other (channels_lie_last()): of workers that hold whole networks, all on GPUs, in fp32, in which cuDNN convolves those faster (docs/decisions/048).
bool dense_planes(const Job& job);

/// Whether workers of such a strategy, or the job's, are threads of one process.
bool is_in_process(const Spec& strategy);
inline bool is_in_process(const Job& job) { return is_in_process(job.strategy); }

}  // namespace ddl
