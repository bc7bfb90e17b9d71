#include "ddl/lab/ledger_difference.h"

#include "ddl/core/error.h"
#include "ddl/lab/explain_run.h"

namespace ddl {
namespace {

Ledger ledger_of(const Json& record) {
  if (const auto ledger = mean_ledger(record)) return *ledger;
  throw Error(Code::not_found, fmt::format("[explain] run {} has no ledger to compare with; its state is {}", record.value("id", Json()).dump(), record.value("state", Json()).dump()));
}

}  // namespace

LedgerDifference ledger_difference(const Json& record, const Json& other) {
  LedgerDifference out{ledger_of(record), ledger_of(other), {}};
  for (const auto* key : {"model", "dataset", "batch"}) {
    const auto said = [&](const Json& run) { return run.contains("config") && run["config"].is_object() ? run["config"].value(key, Json()) : Json(); };
    if (const auto one = said(record), two = said(other); one != two) out.unlike.push_back(fmt::format("{} {} and {}", key, one.dump(), two.dump()));
  }
  return out;
}

Json to_json(const LedgerDifference& difference) {
  Json terms = Json::array();
  for (std::size_t c = 0; c < kCauses; ++c) {
    const double by = difference.ours.seconds[c] - difference.other.seconds[c];
    terms.push_back({{"term", name(static_cast<Cause>(c))},
                     {"ms", difference.ours.seconds[c] * 1e3},
                     {"against_ms", difference.other.seconds[c] * 1e3},
                     {"difference_ms", by * 1e3},
                     {"percent", difference.other.seconds[c] > 0 ? Json(100 * by / difference.other.seconds[c]) : Json(nullptr)},
                     {"share_of_difference", difference.step() != 0 ? Json(by / difference.step()) : Json(nullptr)}});
  }
  return {{"step_ms", difference.ours.wall * 1e3}, {"against_step_ms", difference.other.wall * 1e3}, {"difference_ms", difference.step() * 1e3}, {"terms", terms}, {"not_the_same_work", difference.unlike}};
}

}  // namespace ddl
