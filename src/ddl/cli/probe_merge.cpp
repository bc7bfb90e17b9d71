#include "ddl/cli/probe_merge.h"

#include <filesystem>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/measure/environment.h"
#include "ddl/predict/machine.h"
#include "ddl/predict/merge_machines.h"

namespace ddl {
namespace {

int merged_from(Json& machine, const std::string& file) {
  const auto other = read_machine(file);
  try {
    return merge_machine(machine, other);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", file, error.what()));
  }
}

}  // namespace

Exit merge_profiles(const std::vector<std::string>& files, const std::string& machine, const Output& output) {
  if (files.empty()) throw Error(Code::invalid_argument, "probe merge: no profile; expected files of machine profiles, as ddlbench probe writes them");
  const auto path = machine.empty() ? default_machine_path() : machine;
  const bool writes = path != "none" && !path.empty(), there = writes && std::filesystem::exists(path);
  auto profile = there ? read_machine(path) : machine.empty() ? new_machine(capture_environment()) : read_machine(files.front());
  Json came = Json::array();
  for (const auto& file : files) came.push_back({{"file", file}, {"entries", merged_from(profile, file)}});
  if (writes) {
    write_machine(path, profile);
  }
  if (output.json) {
    output.document({{"schema", "ddlbench.merge/1"}, {"machine", writes ? Json(path) : Json()}, {"files", came}, {"profile", profile}});
    return Exit::ok;
  }
  for (const auto& each : came) output.say(fmt::format("{}: {} entries that were not there, or were measured later", each["file"].get<std::string>(), each["entries"].get<int>()));
  if (writes) output.say("written: " + path);
  return Exit::ok;
}

}  // namespace ddl
