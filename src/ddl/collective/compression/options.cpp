#include <charconv>
#include <cmath>

#include "ddl/collective/compression/compressions.h"

namespace ddl {
namespace {

template <typename T>
T parsed(const Spec& spec, const std::string& name, T otherwise, bool (*allowed)(T), const char* expected) {
  const auto found = spec.options.find(name);
  if (found == spec.options.end()) return otherwise;
  const auto& text = found->second;
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !allowed(value))
    throw Error(Code::invalid_argument, fmt::format("[compression] {} of {}; got '{}', expected {}", name, spec.name, text, expected));
  return value;
}

}  // namespace

std::size_t kept_elements(const Spec& spec, std::size_t elements) {
  const auto ratio = parsed<double>(spec, "ratio", 0.01, [](double r) { return r > 0 && r <= 1; }, "a number above 0, at most 1");
  return std::max(std::size_t{1}, static_cast<std::size_t>(std::llround(ratio * static_cast<double>(elements))));
}

std::size_t count_option(const Spec& spec, const std::string& name, std::size_t otherwise) {
  return parsed<std::size_t>(spec, name, otherwise, [](std::size_t n) { return n >= 1; }, "a whole number from 1 on");
}

}  // namespace ddl
