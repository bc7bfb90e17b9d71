#pragma once

#include <string>
#include <vector>

#include "ddl/core/json.h"
#include "ddl/core/units.h"
#include "ddl/lab/store.h"

namespace ddl {

/// What explain says of runs, for their page.
struct Explained {
  std::vector<Json> documents;  ///< ddlbench.explain/1, of those that can be explained
  std::string note;             ///< how many were left for want of time; empty: none
};

/// Of all runs that kept a trace, until the time is over: those of several workers first. One worker's run of the same work is looked for among them, then in the store; null: there is none.
Explained explained(const std::vector<Json>& records, const Store* store, Seconds patience = {15});

}  // namespace ddl
