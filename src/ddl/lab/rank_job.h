#pragma once

#include <string>

#include "ddl/core/json.h"
#include "ddl/lab/config.h"
#include "ddl/probe/collectives.h"
#include "ddl/train/control.h"

namespace ddl {

/// What a rank in a process of its own is to do, as text that loses nothing: to train as an experiment says, or to measure as a
/// probe says.
Json train_job(const Experiment& experiment);
Json probe_job(const ProbeSettings& settings);

/// Does it: `text` is one of these, with `places`, {hosts, addresses} by rank or null, added. What happens is said over `control`,
/// a failure as `failed`. Returns the process's exit status.
int run_rank_job(const std::string& text, int rank, int ranks, Control& control);

}  // namespace ddl
