#include "ddl/predict/machine.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>

#include "ddl/core/error.h"
#include "ddl/predict/machine_terms.h"

namespace ddl {
namespace {

constexpr const char* kSchema = "ddlbench.machine/1";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Json wanted(const Json& environment, const char* part, const char* field) {
  return environment.contains(part) && environment[part].is_object() ? environment[part].value(field, Json()) : Json();
}

bool same_under(const std::vector<std::string>& keys, const Json& a, const Json& b) {
  return std::all_of(keys.begin(), keys.end(), [&](const std::string& key) { return a.value(key, Json()) == b.value(key, Json()); });
}

}  // namespace

Json new_machine(const Json& environment) {
  return {{"schema", kSchema},
          {"host", environment.value("host", Json())},
          {"cpu", {{"model", wanted(environment, "cpu", "model")}, {"usable_cores", wanted(environment, "cpu", "usable_cores")}}},
          {"communication", Json::array()}};
}

void add_memory(Json& machine, const Json& environment) {
  if (const auto cache = wanted(environment, "cpu", "cache_bytes"); cache.is_number()) machine["device"]["cache_bytes"] = cache;
  if (const auto isa = wanted(environment, "cpu", "isa"); isa.is_array())
    machine["device"]["multiplies_bf16"] = std::any_of(isa.begin(), isa.end(), [](const Json& word) { return word == "avx512_bf16" || word == "amx_bf16"; });
  const auto there = wanted(environment, "memory", "total_bytes"), allowed = wanted(environment, "cgroup", "memory_limit_bytes");
  if (!there.is_number()) return;
  machine["device"]["memory_bytes"] = allowed.is_number() ? std::min(there.get<std::int64_t>(), allowed.get<std::int64_t>()) : there.get<std::int64_t>();
}

Json read_machine_to_measure(const std::string& path) {
  auto machine = parse_json(read_file(path), path);
  const auto schema = machine.is_object() && machine.contains("schema") && machine["schema"].is_string() ? machine["schema"].get<std::string>() : "";
  if (schema.starts_with("ddlbench.machine/") && schema != kSchema)
    throw Error(Code::unsupported, fmt::format("[machine] {}: unsupported: got schema {}, expected {}", path, schema, kSchema));
  if (schema != kSchema) throw Error(Code::corrupt, fmt::format("[machine] {} is no machine profile; got schema '{}', expected '{}'", path, schema, kSchema));
  const auto wires = machine.find("communication");
  if (wires == machine.end() || !wires->is_array())
    throw Error(Code::corrupt, fmt::format("[machine] {} has no list of wires: communication; got {}, expected a list, empty where ddlbench probe comm has measured none", path, wires == machine.end() ? "nothing" : wires->type_name()));
  return machine;
}

Json read_machine(const std::string& path) {
  auto machine = read_machine_to_measure(path);
  require_terms(machine, path);
  return machine;
}

void write_machine(const std::string& path, const Json& machine) {
  // Where that fails the file cannot be written, and that says it.
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  write_file(path, machine.dump(1) + "\n");
}

std::string default_machine_path() {
  if (const auto told = variable("DDLBENCH_MACHINE"); !told.empty()) return told;
  auto folder = variable("XDG_CONFIG_HOME");
  if (folder.empty() && !variable("HOME").empty()) folder = variable("HOME") + "/.config";
  if (folder.empty()) return "";
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0 || host[0] == '\0') host = {'h', 'e', 'r', 'e'};
  return fmt::format("{}/ddlbench/machines/{}.json", folder, host.data());
}

Json to_json(const CommunicationPart& part) {
  Json entry{{"transport", part.transport}, {"ranks", part.ranks}, {"memory", part.memory}, {"measured", part.measured},
             {"rounds", to_json(part.rounds)}, {"one_shot", to_json(part.one_shot)}, {"best", part.best}};
  if (!part.native.empty()) entry["native"] = part.native;
  if (!part.timed.empty()) entry["timed"] = part.timed;
  if (part.most_bytes > 0) entry["most_bytes"] = part.most_bytes;
  return entry;
}

void add(Json& machine, const CommunicationPart& part) { add_entry(machine, "communication", entry_keys("communication"), to_json(part)); }

const std::map<std::string, std::vector<std::string>>& parts_of_machines() {
  using Keys = std::vector<std::string>;
  static const Keys network{"device", "threads", "precision", "kernels", "network", "dataset", "batch"};
  static const auto with = [](Keys keys, const Keys& more) {
    keys.insert(keys.end(), more.begin(), more.end());
    return keys;
  };
  static const std::map<std::string, Keys> all{{"communication", {"transport", "ranks", "memory"}},
                                               {"compute", network},
                                               {"optimizer", {"device", "threads", "optimizer", "bytes"}},
                                               {"memory", {"device", "what", "threads", "bytes"}},
                                               {"compression", {"device", "compression", "ranks", "bytes"}},
                                               {"contention", with(network, {"what", "workers", "load", "transport", "bytes", "strategy"})},
                                               {"jitter", with(network, {"workers"})},
                                               {"launch", {"device"}},
                                               {"storage", {"folder"}},
                                               {"loader", {"dataset", "synthetic"}}};
  return all;
}

const std::vector<std::string>& entry_keys(const std::string& part) {
  const auto found = parts_of_machines().find(part);
  if (found == parts_of_machines().end()) throw Error(Code::not_found, fmt::format("[machine] profiles have no part of that name; got '{}'", part));
  return found->second;
}

void add_entry(Json& machine, const std::string& part, const std::vector<std::string>& keys, const Json& entry) {
  auto& all = machine[part];
  if (all.is_null()) all = Json::array();
  if (!all.is_array()) throw Error(Code::corrupt, fmt::format("[machine] {}: got {}, expected a list", part, all.type_name()));
  const auto earlier = std::find_if(all.begin(), all.end(), [&](const Json& known) { return same_under(keys, known, entry); });
  if (earlier == all.end())
    all.push_back(entry);
  else
    *earlier = entry;
}

Json earlier_entry(const Json& machine, const std::string& part, const std::vector<std::string>& keys, const Json& entry) {
  for (const auto& known : entries(machine, part))
    if (same_under(keys, known, entry)) return known;
  return {};
}

const Json& entries(const Json& machine, const std::string& part) {
  static const Json none = Json::array();
  const auto found = machine.find(part);
  if (found == machine.end()) return none;
  if (!found->is_array()) throw Error(Code::corrupt, fmt::format("[machine] {}: got {}, expected a list", part, found->type_name()));
  return *found;
}

std::vector<FastestAlgorithm> best_algorithms(const Json& machine, const std::string& transport, int ranks, Goal goal) {
  std::vector<FastestAlgorithm> found;
  try {
    for (const auto& part : machine.at("communication")) {
      if (part.at("transport") != transport || part.at("ranks") != ranks || part.at("memory") != "own") continue;
      for (const auto& piece : part.at("best"))
        if (piece.at("collective") == name(goal))
          found.push_back({piece.at("from_bytes").get<std::size_t>(), piece.at("to_bytes").get<std::size_t>(), piece.at("algorithm").get<std::string>()});
    }
  } catch (const Json::exception& error) {
    throw Error(Code::corrupt, fmt::format("[machine] best algorithms: {}", error.what()));
  }
  return found;
}

std::string best_algorithm(const Json& machine, const std::string& transport, int ranks, Goal goal, std::size_t bytes) {
  for (const auto& choice : best_algorithms(machine, transport, ranks, goal))
    if (bytes >= choice.from && bytes < choice.to) return choice.algorithm;
  return "";
}

bool is_measured(const Json& machine) { return machine.contains("compute") && !machine["compute"].empty(); }

void require_same_devices(const Json& machine, const Json& other) {
  for (const auto& entry : entries(machine, "launch"))
    for (const auto& theirs : entries(other, "launch")) {
      const auto own = entry.value("product", ""), told = theirs.value("product", "");
      if (entry.value("device", "cpu") == theirs.value("device", "cpu") && !own.empty() && !told.empty() && own != told)
        throw Error(Code::invalid_argument, fmt::format("[machine] what was measured of different devices is not put into one profile; got {} of {}, expected {}; give another file", theirs.value("device", "cpu"), told, own));
    }
}

bool is_datasheet(const Json& machine) {
  const auto device = machine.find("device");
  return !is_measured(machine) && device != machine.end() && device->size() > device->count("memory_bytes") + device->count("cache_bytes") + device->count("multiplies_bf16");
}

std::string source_of(const Json& machine) { return is_measured(machine) ? "measured" : is_datasheet(machine) ? "datasheet" : "wires"; }

std::optional<bool> multiplies_bf16_there(const Json& machine) {
  const auto device = machine.value("device", Json::object());
  if (const auto told = device.find("multiplies_bf16"); told != device.end()) return told->get<bool>();
  // A datasheet has a peak of what its processor multiplies.
  if (is_datasheet(machine) && device.value("kind", "cpu") == "cpu") return device.value("peak_flops", Json::object()).contains("bf16");
  return {};
}

bool same_machine(const Json& machine, const Json& environment) {
  const auto here = new_machine(environment);
  return machine.value("cpu", Json()) == here["cpu"];
}

Json measured_here(const Json& environment) {
  const auto path = default_machine_path();
  std::error_code ignored;
  if (path.empty() || !std::filesystem::exists(path, ignored)) throw Error(Code::not_found, "nothing was measured of this machine; ddlbench probe compute and probe comm do");
  auto machine = read_machine_to_measure(path);
  if (!same_machine(machine, environment)) throw Error(Code::not_found, fmt::format("{} is of another machine", path));
  if (!is_measured(machine)) throw Error(Code::not_found, fmt::format("{} has no layers; ddlbench probe compute measures them", path));
  require_terms(machine, path);
  return machine;
}

}  // namespace ddl
