#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ddl/core/json.h"
#include "ddl/plan/schedule.h"
#include "ddl/predict/wire_cost.h"

namespace ddl {

// A machine profile is a JSON document, `ddlbench.machine/1` (docs/machine.md): what was measured of one machine, part by
// part. It stays a document here, since it is merged, written and read by people more often than it is computed with.

/// With nothing in it. `environment`: capture_environment()'s.
Json new_machine(const Json& environment);

/// Errors: not_found, corrupt (no JSON, or no machine profile), unsupported (a newer schema), each naming the file; those of require_terms().
Json read_machine(const std::string& path);
/// For measurements to be added to, which may be what mends it: terms that entries lack are no error.
Json read_machine_to_measure(const std::string& path);

/// With the folders that it lies in. Errors: io, naming the file.
void write_machine(const std::string& path, const Json& machine);

/// Where this machine's profile is kept unless told otherwise: $DDLBENCH_MACHINE, or
/// $XDG_CONFIG_HOME/ddlbench/machines/HOST.json ($HOME/.config/…). Empty where there is no home either.
std::string default_machine_path();

/// Writes how much memory the workers on such a machine have together, `device.memory_bytes`: what it has, or its control group allows where that is less; and what its largest cache holds,
/// `device.cache_bytes`; and whether its processor multiplies bf16 itself, `device.multiplies_bf16`. Nothing where the environment does not say.
void add_memory(Json& machine, const Json& environment);

/// One transport between so many ranks, as `probe comm` measured it.
struct CommunicationPart {
  std::string transport;
  int ranks = 0;
  std::string memory = "own";   ///< "own": the transport's; "outside": the caller's; "evicted": the transport's, which had left the caches
  WireCost rounds;              ///< of schedules that are run round by round
  WireCost one_shot;            ///< of those that shared memory runs in one pass; none where it does not
  /// [{collective, from_bytes, to_bytes, algorithm}]: what was fastest, without gaps by collective.
  Json best = Json::array();
  /// [{collective, algorithm, points: [{bytes, time_us}]}]: what collectives of the transport's own library took, of which nobody knows rounds.
  Json native = Json::array();
  Json timed = Json::array();   ///< the same of our own algorithms, by which `rounds`, `one_shot` and `best` were fitted and chosen
  std::string measured;         ///< when, UTC
  std::size_t most_bytes = 0;   ///< of the largest buffer; 0: not told
};

/// As an entry of `communication`.
Json to_json(const CommunicationPart& part);
/// Puts a part in the place of an earlier one of the same transport, ranks and memory.
void add(Json& machine, const CommunicationPart& part);

/// The parts that profiles have, and what entries of each are told apart by: of two that say the same under all of these one is the other measured again.
const std::map<std::string, std::vector<std::string>>& parts_of_machines();
/// Those of one part ("compute", "optimizer", …). Errors: not_found for a part that profiles do not have.
const std::vector<std::string>& entry_keys(const std::string& part);

/// Puts an entry into a part of the profile ("compute", "optimizer", …), in the place of an earlier one that says the same under all `keys`; a key that both lack is the same.
void add_entry(Json& machine, const std::string& part, const std::vector<std::string>& keys, const Json& entry);
/// That earlier entry; null where there is none.
Json earlier_entry(const Json& machine, const std::string& part, const std::vector<std::string>& keys, const Json& entry);
/// The entries of a part; none where an older profile has no such part. Errors: corrupt where it is no list.
const Json& entries(const Json& machine, const std::string& part);

/// An algorithm, as users write it, that was fastest for [from, to) bytes.
struct FastestAlgorithm {
  std::size_t from = 0;
  std::size_t to = 0;
  std::string algorithm;
};
/// Of memory that is the transport's own, in ascending order; empty where it was not measured. Errors: corrupt.
std::vector<FastestAlgorithm> best_algorithms(const Json& machine, const std::string& transport, int ranks, Goal goal);
/// The one for so many bytes; empty where there is none.
std::string best_algorithm(const Json& machine, const std::string& transport, int ranks, Goal goal, std::size_t bytes);

/// Whether layers were measured on it; else it is a datasheet's, or only its communication was measured.
bool is_measured(const Json& machine);
/// "measured"; "datasheet"; "wires": of a host of which nothing else was measured, for workers that are emulated.
std::string source_of(const Json& machine);
/// Errors: invalid_argument where both say of the same device (`launch`) that it is another product.
void require_same_devices(const Json& machine, const Json& other);
/// Whether it says what a device does by its datasheet alone; how much memory there is any profile may say.
bool is_datasheet(const Json& machine);

/// Whether its processor multiplies bf16 itself; nothing where the profile does not say, or is of a GPU.
std::optional<bool> multiplies_bf16_there(const Json& machine);

/// Whether it was measured on a machine like this one: same processor, as many cores.
bool same_machine(const Json& machine, const Json& environment);

/// This machine's own profile, with layers. Errors: not_found, saying why there is none; those of read_machine().
Json measured_here(const Json& environment);

}  // namespace ddl
