#pragma once

#include "ddl/core/error.h"
#include "ddl/probe/collectives.h"
#include "ddl/train/control.h"

namespace ddl {

/// What a rank of a probe learns goes to the coordinator, as JSON in `result` messages; threads of one process share a control.
ProbeEvents told_over(Control& control, int rank);

/// As `failed`; to a coordinator that is gone it says nothing.
void tell_failure(Control& control, const Error& error);

/// Runs `body`; what it throws is told. Returns the process's exit status.
template <typename Body>
int answered(Control& control, const Body& body) {
  try {
    body();
    return 0;
  } catch (const Error& error) {
    tell_failure(control, error);
    return 1;
  }
}

/// A rank's part of a probe, in a process of its own.
int run_probe_rank(Control& control, const ProbeSettings& settings, int rank, int ranks);

}  // namespace ddl
