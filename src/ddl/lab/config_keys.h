#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "ddl/lab/config.h"

namespace ddl {

/// A key and what it does: `apply` parses a value, stores it in the experiment and returns the form that the record
/// keeps. Errors: those of config_values.h, without the origin.
struct Binding {
  Key key;
  std::function<Json(Experiment&, const std::string& value)> apply;
};

const std::vector<Binding>& bindings();

/// Null where there is no such key.
const Binding* find_binding(std::string_view name);

/// " (did you mean 'x'?); expected one of: …" for the name of a key that does not exist.
std::string unknown_key(std::string_view name);

}  // namespace ddl
