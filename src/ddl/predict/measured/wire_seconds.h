#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ddl/core/json.h"
#include "ddl/plan/schedule.h"
#include "ddl/predict/measured/native_seconds.h"

namespace ddl {

/// How messages and collectives travel, as users write it.
struct WireSetup {
  std::string transport = "shm";
  std::string collective = "auto";
  /// Of a test network between the ranks, which was not measured: what it lets through, and what each message takes more; 0: none.
  double bytes_per_s = 0, latency = 0;
  /// Where buffers lie, as a profile's parts have it: "own", the transport's memory, as buckets do; "outside", the heap, as what layers make does; "evicted", the transport's, and in no cache any more.
  /// What was measured of the latter two counts, if it was; else what was of the first.
  std::string memory = "own";
};

/// Whether ranks over it read each other's memory.
bool shares_memory(const std::string& transport);
/// Whether what collectives over one take of cores, and of those that compute there, is taken for the other's.
bool contends_alike(const std::string& measured, const std::string& transport);

/// What the communication part of a machine profile has of just as many ranks and such memory; null where nothing was measured.
const Json* measured_part(const Json& profile, const std::string& transport, int ranks, const std::string& memory);
/// The number of ranks whose measurement over a transport prices so many: the nearest, in doublings, of `measured`; 0 where there is none.
int nearest_ranks(int ranks, const std::vector<int>& measured);
/// The same, of the communication part of a machine profile.
int pricing_ranks(const Json& profile, const std::string& transport, int ranks);

/// Of a test network, what one sends over hosts' wires and has from there, bytes by host. `hosts`: of ranks. Errors: those of choose_algorithm().
struct WireLoads {
  std::map<int, double> out, in;
  int hosts = 0;             ///< of its ranks
  int rounds = 0;            ///< of the rank that has most, those in which it sends over one
  double busiest() const;  ///< of one wire one way
};
WireLoads wire_loads(const Json& profile, const WireSetup& setup, Goal goal, std::int64_t bytes, const std::vector<int>& hosts);

/// What one takes between so many ranks by the communication part of a machine profile, or a portion of that. Errors: not_found, naming the probe that measures it; those of choose_algorithm().
double wire_seconds(const Json& profile, const WireSetup& setup, Goal goal, std::int64_t bytes, int ranks, Portion portion = Portion::whole);

}  // namespace ddl
