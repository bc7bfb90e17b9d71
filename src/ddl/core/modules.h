#pragma once

#include <filesystem>
#include <string>

namespace ddl {

/// Where a part of this program that is loaded only when it is used lies: beside the binary, in a build and where it is installed. Whether it is
/// there is not looked at; empty where this process cannot tell what it runs.
std::filesystem::path module_file(const std::string& name);

}  // namespace ddl
