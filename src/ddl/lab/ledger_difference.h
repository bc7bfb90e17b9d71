#pragma once

#include <string>
#include <vector>

#include "ddl/core/json.h"
#include "ddl/measure/ledger.h"

namespace ddl {

/// How two runs' steps differ, term by term, on the mean over workers and measured steps. Seconds.
struct LedgerDifference {
  Ledger ours, other;
  /// Keys of the configuration that say that the work is not the same; of such runs no difference is due to how they were run alone.
  std::vector<std::string> unlike;
  double step() const { return ours.wall - other.wall; }
};

/// Errors: not_found for a run without a ledger.
LedgerDifference ledger_difference(const Json& record, const Json& other);
Json to_json(const LedgerDifference& difference);

}  // namespace ddl
