#pragma once

#include "ddl/core/json.h"

namespace ddl {

/// What of the machine bears on a measurement, as found now: `host`, `os` (kernel, distribution, libc), `cpu` (model,
/// logical cores, usable cores, topology, governor, ISA flags that matter, MHz now), `memory` (total, available,
/// transparent huge pages, NUMA nodes), `cgroup` (CPU quota, memory limit), `aslr`, `load` (1, 5, 15 minutes),
/// `variables` (an allow-list: OMP_*, MKL_*, KMP_*, TORCH_*, NCCL_*, SLURM_* names, never secrets), `time` (UTC).
/// What cannot be read is null, not left out.
Json capture_environment();

/// What moved between two captures and matters: load, available memory, frequency, governor. A list of sentences.
Json environment_drift(const Json& before, const Json& after);

}  // namespace ddl
