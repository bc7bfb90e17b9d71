#include "ddl/cli/explained.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "ddl/lab/explain_run.h"
#include "ddl/measure/clock.h"

namespace ddl {
namespace {

bool has_trace(const Json& record) {
  return record.is_object() && record.value("state", Json()) == "ok" && record.contains("trace") && record["trace"].is_array() && !record["trace"].empty() && record.contains("plan") && record["plan"].is_object();
}

std::size_t workers_in(const Json& record) { return record.contains("ranks") && record["ranks"].is_array() ? record["ranks"].size() : 0; }

std::optional<Json> one_worker(const std::vector<Json>& records, const Store* store, const Json& record) {
  const auto found = std::find_if(records.rbegin(), records.rend(), [&](const Json& other) { return is_one_worker_of(other, record); });
  if (found != records.rend()) return *found;
  return store != nullptr ? find_one_worker(*store, record) : std::nullopt;
}

}  // namespace

Explained explained(const std::vector<Json>& records, const Store* store, Seconds patience) {
  Explained out;
  std::vector<const Json*> order;
  for (const auto& record : records)
    if (has_trace(record)) order.push_back(&record);
  std::stable_sort(order.begin(), order.end(), [](const Json* a, const Json* b) { return (workers_in(*a) > 1) > (workers_in(*b) > 1); });
  const auto begin = now();
  std::size_t left = 0;
  for (const auto* record : order) {
    if (seconds(now() - begin) > patience.value) {
      ++left;
      continue;
    }
    try {
      const auto one = one_worker(records, store, *record);
      out.documents.push_back(to_json(explain_run(*record, one ? &*one : nullptr, "")));
    } catch (const std::exception&) {
      // Of another version, or otherwise not to be explained: explain says why.
    }
  }
  if (left > 0) out.note = fmt::format("{} of {} runs are not explained here: it took longer than {:.0f} s. ddlbench explain RUN does it.", left, order.size(), patience.value);
  return out;
}

}  // namespace ddl
