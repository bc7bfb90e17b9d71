#include "ddl/predict/datasheet/library.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/predict/machine.h"

namespace ddl {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_in(const std::string& under, const char* ending = ".json") {
  std::vector<std::string> names;
  for (const auto& folder : machine_folders()) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(fs::path(folder) / under, ignored))
      if (entry.path().extension() == ending) names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::string path_of(const std::string& under, const std::string& name, const char* ending = ".json") {
  for (const auto& folder : machine_folders()) {
    const auto path = fs::path(folder) / under / (name + ending);
    std::error_code ignored;
    if (fs::is_regular_file(path, ignored)) return path.string();
  }
  return "";
}

/// Kinds of documents that are what a stack is asked for by name.
const std::vector<std::string> kStacks{"ddlbench.stack/1", "ddlbench.kernels/1", "ddlbench.wires/1"}, kLibraries{"ddlbench.library/1"};

Json read_named(const std::string& path, const std::vector<std::string>& schemas) {
  auto found = parse_json(read_file(path), path);
  const auto schema = found.is_object() ? found.value("schema", Json()) : Json();
  if (!schema.is_string() || std::find(schemas.begin(), schemas.end(), schema.get<std::string>()) == schemas.end())
    throw Error(Code::unsupported, fmt::format("[machine] {}: unsupported: got schema {}, expected one of: {}", path, schema.dump(), join(schemas, " ")));
  return found;
}

Json find_named(const std::string& folder, const char* what, const std::string& name, const std::vector<std::string>& schemas) {
  const auto path = path_of(folder, name);
  if (path.empty()) {
    const auto known = names_in(folder);
    throw Error(Code::not_found, fmt::format("[machine] no {} of that name; got '{}'{}, expected one of: {}", what, name, did_you_mean(name, known), join(known, " ")));
  }
  return read_named(path, schemas);
}

const Json* find(const Json& document, const std::string& path) {
  const auto* at = &document;
  std::size_t from = 0;
  while (from <= path.size()) {
    const auto to = std::min(path.find('.', from), path.size());
    const auto key = path.substr(from, to - from);
    if (!at->is_object() || !at->contains(key)) return nullptr;
    at = &(*at)[key];
    from = to + 1;
  }
  return at;
}

}  // namespace

std::vector<std::string> machine_folders() {
  std::error_code ignored;
  const auto binary = fs::read_symlink("/proc/self/exe", ignored);
  std::vector<std::string> folders;
  for (const auto& folder : {fs::path("machines"), binary.parent_path().parent_path() / "share/ddlbench/machines", fs::path(DDL_MACHINE_FOLDER)})
    if (fs::is_directory(folder, ignored)) folders.push_back(folder.string());
  return folders;
}

std::vector<std::string> shipped_machines() { return names_in("."); }
std::vector<std::string> shipped_stacks() { return names_in("stacks"); }

std::string machine_file(const std::string& name) {
  std::error_code ignored;
  if (fs::is_regular_file(name, ignored)) return name;
  if (const auto path = path_of(".", name); !path.empty()) return path;
  const auto known = shipped_machines();
  std::string small = name, chosen;
  std::transform(small.begin(), small.end(), small.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  double most = 0;
  for (const auto& each : known) {
    if (each == small) return path_of(".", each);
    // A whole word: k8 is no K80.
    if (small.empty() || !each.starts_with(small + "-")) continue;
    if (const double memory = term_or(read_machine(path_of(".", each)), "device.memory_bytes", 0); memory > most) {
      most = memory;
      chosen = each;
    }
  }
  if (!chosen.empty()) return path_of(".", chosen);
  throw Error(Code::not_found, fmt::format("[machine] no profile of that name; got '{}'{}, expected a file or one of: {}", name, did_you_mean(name, known), join(known, " ")));
}

Json find_machine(const std::string& name) { return read_machine(machine_file(name)); }

std::optional<Json> stack_with(const std::string& name, const char* part) {
  const auto path = name.empty() ? std::string() : path_of("stacks", name);
  if (path.empty()) return std::nullopt;
  auto stack = read_named(path, kStacks);
  return stack.contains(part) ? std::optional(std::move(stack)) : std::nullopt;
}

Json find_stack(const std::string& name) { return find_named("stacks", "stack", name, kStacks); }

std::vector<std::string> shipped_libraries() { return names_in("libraries"); }
Json find_library(const std::string& name) { return find_named("libraries", "library of collectives", name, kLibraries); }

std::vector<std::string> shipped_tables() { return names_in("tables", ".csv"); }

std::string find_table(const std::string& name_or_path) {
  std::error_code ignored;
  if (fs::is_regular_file(name_or_path, ignored)) return name_or_path;
  if (const auto path = path_of("tables", name_or_path, ".csv"); !path.empty()) return path;
  const auto known = shipped_tables();
  throw Error(Code::not_found, fmt::format("[validate] no such file or table; got '{}'{}, expected a CSV file or one of: {}", name_or_path, did_you_mean(name_or_path, known), join(known, " ")));
}

double term(const Json& document, const std::string& path) {
  const auto* found = find(document, path);
  if (found == nullptr || !found->is_number())
    throw Error(Code::not_found, fmt::format("[machine] profile '{}' has no {}; expected a number there, as {}", document.value("name", "?"), path,
                                             path == "device.memory_bytes" ? "any ddlbench probe on that machine writes it, or a datasheet says" : "a datasheet says: no probe measures it (docs/machine.md, \"Profiles of datasheets\")"));
  return found->get<double>();
}

double term_or(const Json& document, const std::string& path, double otherwise) {
  const auto* found = find(document, path);
  return found != nullptr && found->is_number() ? found->get<double>() : otherwise;
}

}  // namespace ddl
