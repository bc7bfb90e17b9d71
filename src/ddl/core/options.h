#pragma once

#include <string>

#include "ddl/core/spec.h"

namespace ddl {

/// A number among the options of a spec, or `otherwise` where it is not given.
/// Errors: invalid_argument unless it is a finite number from `low` to `high`.
double number_option(const Spec& spec, const std::string& name, double otherwise, double low, double high);

/// on or off; a bare word is on. Errors: invalid_argument for anything else.
bool switch_option(const Spec& spec, const std::string& name, bool otherwise);

}  // namespace ddl
