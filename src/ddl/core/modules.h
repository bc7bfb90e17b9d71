#pragma once

#include <filesystem>
#include <string>

namespace ddl {

/// Where a part of this program that is loaded only when it is used lies: in lib/ddlbench beside the binary's folder, in a build and where it is
/// installed, or in the binary's own folder where it is there. Whether it is in the former is not looked at; a relative path where this process cannot tell what it runs.
std::filesystem::path module_file(const std::string& name);

}  // namespace ddl
