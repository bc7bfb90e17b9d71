#pragma once

#include <string>
#include <utility>
#include <vector>

namespace ddl {

/// Names and summaries of builtin_optimizers(), for those that know nothing of LibTorch.
std::vector<std::pair<std::string, std::string>> optimizer_list();

}  // namespace ddl
