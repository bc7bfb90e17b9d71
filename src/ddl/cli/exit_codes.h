#pragma once

#include "ddl/core/error.h"
#include "ddl/core/json.h"

namespace ddl {

/// What the process returns: the one place. Scripts rely on these numbers (docs: cli).
enum class Exit : int {
  ok = 0,
  failure = 1,       ///< a run failed, a file could not be read or written, something was damaged
  usage = 2,         ///< command line or configuration
  regression = 3,    ///< confirmed
  partial = 4,       ///< some experiments of a sweep failed or were skipped
  inconclusive = 5,
  refused = 6,       ///< this machine or this build cannot do it
  timeout = 124,
  interrupted = 130,
  terminated = 143,
};

Exit exit_for(Code code);
/// By the record's state; `interrupted` by SIGTERM is told apart by its reason.
Exit exit_for_record(const Json& record);

}  // namespace ddl
