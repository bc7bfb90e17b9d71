#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ddl/core/json.h"
#include "ddl/predict/step/cost_source.h"
#include "ddl/train/job.h"

namespace ddl {

/// The all-reduce that a job asks for: the strategy's own option before the job's.
std::string collective_of(const Job& job);

/// Of `emulated:PROFILE`, the profile: by name or file. Errors: those of find_machine(); corrupt, with what it has nothing of.
Json emulated_profile(const std::string& device);

/// What a job's tasks take on workers of a profile: as measured, where layers were measured there or communication was, else by its datasheet. Workers share hosts as `per_node` says, all of them one where that is
/// 0 and the profile was measured. Of emulated workers a measured profile is not asked what they compute.
/// Errors: those of MeasuredMachine and datasheet_source().
std::unique_ptr<CostSource> costs_on(const Json& machine, const Job& job, int per_node = 0);

/// What an emulated worker's own profile says of its computation, whichever worker of the job it is.
/// Errors: as above; invalid_argument where a measured profile has layers of several kinds of devices, and the worker does not say which it stands for, or it says one that is not there.
std::shared_ptr<const CostSource> emulated_costs(const Json& profile, const Job& job, const WorkerSpec& worker);
/// The same of one of the job's workers.
std::shared_ptr<const CostSource> emulated_costs(const Job& job, int worker);

/// Bytes that there are for one worker of such a profile; 0: it does not say.
std::int64_t emulated_memory(const Json& profile, const WorkerSpec& worker);

/// Whether a worker of such a profile stands for a GPU. Errors: as emulated_costs().
bool emulates_gpu(const Json& profile, const WorkerSpec& worker);

/// What layers take on one of the job's emulated workers, slowed as it is.
NetworkSeconds profile_seconds(const Job& job, int worker, const ModelGraph& graph, std::int64_t samples);

}  // namespace ddl
