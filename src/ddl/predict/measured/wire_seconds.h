#pragma once

#include <cstdint>
#include <string>

#include "ddl/core/json.h"
#include "ddl/plan/schedule.h"
#include "ddl/predict/wire_cost.h"

namespace ddl {

/// How messages and collectives travel, as users write it.
struct WireSetup {
  std::string transport = "shm";
  std::string collective = "auto";
  /// Of a test network between the ranks, which was not measured: what it lets through, and what each message takes more; 0: none.
  double bytes_per_s = 0, latency = 0;
  /// Whether buffers lie in the transport's own memory, as buckets do; else in the heap, as what layers make does: then what was measured of such counts, if it was.
  bool own_memory = true;
};

/// Whether ranks over it read each other's memory.
bool shares_memory(const std::string& transport);

inline UnitCosts as_measured(const UnitCosts& costs) { return costs; }
/// What is left of them where bytes cost nothing.
inline UnitCosts latency_alone(const UnitCosts& costs) { return {costs.alpha, costs.overhead}; }

/// What one takes between so many ranks by the communication part of a machine profile, with unit costs made into others. Errors: not_found, naming the probe that measures it; those of choose_algorithm().
double wire_seconds(const Json& profile, const WireSetup& setup, Goal goal, std::int64_t bytes, int ranks, UnitCosts (*as)(const UnitCosts&) = as_measured);

}  // namespace ddl
