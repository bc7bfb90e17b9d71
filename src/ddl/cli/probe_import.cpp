#include "ddl/cli/probe_import.h"

#include <filesystem>

#include "ddl/core/error.h"
#include "ddl/core/units.h"
#include "ddl/lab/chakra_trace.h"
#include "ddl/lab/import_chakra.h"
#include "ddl/measure/environment.h"
#include "ddl/predict/machine.h"

namespace ddl {
namespace {

/// The profile that it is added to.
Json profile_at(const std::string& path, const Json& environment, bool own) {
  if (own && !(environment.is_object() && same_machine(new_machine(environment), capture_environment())))
    throw Error(Code::invalid_argument, "--machine: the trace is not known to be of this machine, whose profile is written unless another is given; got no --machine, expected a file");
  if (std::filesystem::exists(path)) {
    auto machine = read_machine_to_measure(path);
    if (environment.is_object() && !same_machine(machine, environment))
      throw Error(Code::invalid_argument, fmt::format("--machine: {} is of another machine; got {}, the trace is of {}; give another file", path, machine["cpu"].dump(), environment["cpu"].dump()));
    return machine;
  }
  if (!environment.is_object())
    throw Error(Code::invalid_argument, fmt::format("--machine: the trace does not say of which machine it is; got {}, where no file is, expected a profile that is there", path));
  return new_machine(environment);
}

}  // namespace

Exit import_traces(const std::vector<std::string>& files, const Settings& told, const std::string& machine, const Output& output) {
  if (files.empty()) throw Error(Code::invalid_argument, "probe import: no trace; expected files of execution traces, one a rank, as export --format chakra writes them");
  std::vector<ChakraTrace> traces;
  for (const auto& file : files) traces.push_back(read_chakra(read_file(file), file));
  auto document = import_chakra(traces, told);
  const auto path = machine.empty() ? default_machine_path() : machine;
  if (path != "none" && !path.empty()) {
    auto profile = profile_at(path, document["environment"], machine.empty());
    if (document["environment"].is_object()) add_memory(profile, document["environment"]);
    for (const auto& entry : document["compute"]) add_entry(profile, "compute", entry_keys("compute"), entry);
    for (const auto& entry : document["optimizer"]) add_entry(profile, "optimizer", entry_keys("optimizer"), entry);
    // What was measured for itself says more.
    if (entries(profile, "launch").empty())
      for (const auto& entry : document["launch"]) add_entry(profile, "launch", entry_keys("launch"), entry);
    write_machine(path, profile);
    document["machine"] = path;
  }
  if (output.json) {
    output.document(document);
  } else {
    std::vector<std::vector<std::string>> rows{{"network", "data set", "batch", "precision", "forward ms", "backward ms", "layers"}};
    for (const auto& entry : document["compute"])
      rows.push_back({entry["network"], entry["dataset"], fmt::format("{}", entry["batch"].get<std::int64_t>()), entry["precision"], fmt::format("{:.3f}", entry["forward_ms"].get<double>()),
                      fmt::format("{:.3f}", entry["backward_ms"].get<double>()), fmt::format("{}", entry["layers"].size())});
    output.data(columns(rows));
  }
  for (const auto& each : output.json ? Json::array() : document["collectives"])
    output.say(fmt::format("{} of {}: {} times, {:.1f} us on the mean (not in the profile: a trace does not say what carried it; probe comm measures)", each["collective"].get<std::string>(),
                           to_string(Bytes{each["bytes"].get<std::int64_t>()}), each["count"].get<std::size_t>(), each["mean_us"].get<double>()));
  if (const int left = document["left_out"]; left > 0) output.say(fmt::format("{} of {} nodes say nothing of a layer, and were left out", left, document["nodes"].get<int>()));
  if (const auto& untold = document["untold"]; !untold.empty()) output.say(fmt::format("{} layers without weights are in no trace, {} the first: taken to be within the others' times", untold.size(), untold.front().get<std::string>()));
  if (document.contains("machine")) output.say("written: " + path);
  return Exit::ok;
}

}  // namespace ddl
