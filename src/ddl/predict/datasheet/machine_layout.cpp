#include "ddl/predict/datasheet/machine_layout.h"

#include <charconv>
#include <cmath>
#include <filesystem>

#include "ddl/core/error.h"
#include "ddl/core/spec.h"
#include "ddl/predict/datasheet/collective_library.h"
#include "ddl/predict/datasheet/library.h"
#include "ddl/predict/datasheet/wires.h"
#include "ddl/predict/machine.h"

namespace ddl {
namespace {

/// More than any machine has.
constexpr int kMost = 1'000'000;

std::string option(const Spec& spec, const char* key) {
  const auto found = spec.options.find(key);
  return found == spec.options.end() ? "" : found->second;
}

/// 0: not told.
int count(const Spec& spec, const char* key) {
  const auto text = option(spec, key);
  if (text.empty()) return 0;
  int value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc{} || end != text.data() + text.size() || value < 1 || value > kMost)
    throw Error(Code::invalid_argument, fmt::format("[machine] {}; got '{}', expected a whole number from 1 to {}", key, text, kMost));
  return value;
}

bool other(double told, double own) { return std::abs(told / own - 1) > 0.01; }

/// Puts wires where the profile's were, and says so.
void replace(Json& machine, const Wires& wires, int devices, std::vector<std::string>& words) {
  auto& node = machine["node"];
  const auto name = machine.value("name", "?");
  const auto take = [&](const char* term, double told, const char* what) {
    if (told <= 0) return;
    const double own = term_or(node, term, 0);
    if (other(told, own)) words.push_back(fmt::format("{}: {:.4g} GB/s, not the {:.4g} of the profile of {}", what, told * 1e-9, own * 1e-9, name));
    node[term] = told;
  };
  take("bus_bandwidth", wires.bus, "wires in a node");
  take("network_bandwidth_per_device", wires.network / devices, "wires between nodes, of each device");
  if (wires.bus > 0) node["link"] = wires.inside;
  if (wires.network > 0) node["network"] = wires.between;
  for (const auto& note : wires.notes) words.push_back(note);
}

}  // namespace

Json machine_laid_out(const std::string& asked) {
  std::error_code ignored;
  const auto open = asked.find('[');
  // A file's name may have brackets.
  if (open == std::string::npos || std::filesystem::is_regular_file(asked, ignored)) return find_machine(asked);
  const auto spec = parse_spec(asked);
  require_options(spec, {"nodes", "devices_per_node", "link_intra", "link_inter", "library"});
  auto machine = find_machine(spec.name);
  if (spec.options.empty()) return machine;
  if (!is_datasheet(machine))
    throw Error(Code::unsupported, fmt::format("[machine] '{}' was measured, and how its workers are joined with it; got {}, expected a datasheet's profile (ddlbench list machines), or the measured one alone", spec.name, asked.substr(open)));
  auto& node = machine["node"];
  const int own = static_cast<int>(term(machine, "node.devices")), told = count(spec, "devices_per_node"), devices = told > 0 ? told : own;
  std::vector<std::string> words;
  replace(machine, wires_of(machine, option(spec, "link_intra"), option(spec, "link_inter")), devices, words);
  if (const auto library = option(spec, "library"); !library.empty()) {
    find_library(library);  // or says which there are
    if (const auto before = library_of(machine).name(); before != library) words.push_back(fmt::format("collectives by {}, not the {} of the profile of {}", library, before, machine.value("name", "?")));
    node["library"] = library;
  }
  node["replaced"] = words;
  node["devices"] = devices;
  // Each device keeps its share of wires that are as they were; wires that are told are of this node.
  if (devices != own && option(spec, "link_inter").empty()) node["wired_devices"] = static_cast<int>(term_or(node, "wired_devices", own));
  if (const int nodes = count(spec, "nodes"); nodes > 0) node["count"] = nodes;
  machine["name"] = machine.value("name", spec.name) + asked.substr(open);
  return machine;
}

}  // namespace ddl
