#include "ddl/core/options.h"

#include <charconv>
#include <cmath>

#include "ddl/core/error.h"

namespace ddl {

double number_option(const Spec& spec, const std::string& name, double otherwise, double low, double high) {
  const auto found = spec.options.find(name);
  if (found == spec.options.end()) return otherwise;
  const auto& text = found->second;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value) || value < low || value > high)
    throw Error(Code::invalid_argument, fmt::format("[{}] {}; got '{}', expected a number from {} to {}", spec.name, name, text, low, high));
  return value;
}

bool switch_option(const Spec& spec, const std::string& name, bool otherwise) {
  const auto found = spec.options.find(name);
  if (found == spec.options.end()) return otherwise;
  if (found->second == "on") return true;
  if (found->second == "off") return false;
  throw Error(Code::invalid_argument, fmt::format("[{}] {}; got '{}', expected on or off", spec.name, name, found->second));
}

}  // namespace ddl
