#pragma once

#include <map>
#include <string>
#include <vector>

#include "ddl/core/spec.h"

namespace ddl {

/// Why a strategy, as it is told to be, does not have an option that its users may look for in it, and what would do.
struct Why {
  std::string reason, expected;
};
using WhyNot = std::map<std::string, Why>;

/// As require_options(): and of options that are known elsewhere, says where, or what is wrong with them here.
/// Errors: invalid_argument.
void require_own_options(const Spec& spec, const std::vector<std::string>& own, const WhyNot& why_not = {});

}  // namespace ddl
