#include "ddl/predict/merge_machines.h"

#include <algorithm>

#include "ddl/core/error.h"
#include "ddl/predict/machine.h"
#include "ddl/predict/measured/communication_part.h"
#include "ddl/predict/measured/history.h"

namespace ddl {
namespace {

/// Times are UTC in ISO 8601, so that words compare as they do.
bool is_later(const Json& known, const Json& entry) {
  const auto before = known.value("measured", Json()), now = entry.value("measured", Json());
  return before.is_string() && now.is_string() && before.get<std::string>() > now.get<std::string>();
}

}  // namespace

int merge_machine(Json& machine, const Json& other) {
  const auto processor = [](const Json& of) { return of.value("cpu", Json()); };
  if (!processor(other).is_object() || !processor(other).value("model", Json()).is_string())
    throw Error(Code::invalid_argument, fmt::format("[machine] a profile that does not say of which processor it is is not merged; got cpu {}, expected its model and usable_cores", processor(other).dump()));
  if (processor(machine) != processor(other))
    throw Error(Code::invalid_argument, fmt::format("[machine] profiles of different machines are not merged; got {}, expected {}", processor(other).dump(), processor(machine).dump()));
  require_same_devices(machine, other);
  int came = 0;
  for (const auto& [part, keys] : parts_of_machines())
    for (const auto& entry : entries(other, part)) {
      if (!entry.is_object()) throw Error(Code::corrupt, fmt::format("[machine] {}: got {}, expected an entry", part, entry.type_name()));
      const auto known = earlier_entry(machine, part, keys, entry);
      if (known == entry) continue;
      const bool comes = !(known.is_object() && is_later(known, entry));
      auto merged = comes ? entry : known;
      if (part == "communication" && known.is_object()) merged = comes ? joined(known, entry) : joined(entry, known);
      if (known.is_object()) remember_all(merged, comes ? known : entry);
      if (part == "compute" && known.is_object()) keep_parts(merged, comes ? known : entry);
      if (merged == known) continue;
      add_entry(machine, part, keys, merged);
      if (comes) ++came;
    }
  if (const auto device = other.find("device"); device != other.end() && device->is_object())
    for (const auto* key : {"memory_bytes", "cache_bytes"})
      if (device->contains(key) && !machine.value("device", Json::object()).contains(key)) machine["device"][key] = device->at(key);
  return came;
}

}  // namespace ddl
