#include "ddl/cli/exported.h"

#include <filesystem>
#include <system_error>

#include "ddl/core/error.h"

namespace ddl {

std::vector<std::string> write_exported(const Exporter& exporter, const std::vector<ExportedFile>& files, const std::string& path) {
  std::vector<std::string> names;
  if (!exporter.folder) {
    write_file(path, files.front().text);
    return names;
  }
  std::error_code failed;
  std::filesystem::create_directories(path, failed);
  if (failed) throw Error(Code::io, fmt::format("-o: cannot make the folder '{}': {}", path, failed.message()));
  for (const auto& [name, text] : files) {
    write_file((std::filesystem::path(path) / name).string(), text);
    names.push_back(name);
  }
  return names;
}

}  // namespace ddl
