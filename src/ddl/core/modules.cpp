#include "ddl/core/modules.h"

#include <system_error>

namespace ddl {

std::filesystem::path module_file(const std::string& name) {
  std::error_code ignored;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  if (ignored) return std::filesystem::path("lib") / "ddlbench" / name;
  const auto beside = self.parent_path() / name;
  return std::filesystem::exists(beside, ignored) ? beside : self.parent_path().parent_path() / "lib" / "ddlbench" / name;
}

}  // namespace ddl
