#include <charconv>
#include <cmath>

#include "ddl/collective/compression/compressions.h"
#include "ddl/core/units.h"

namespace ddl {
namespace {

Error bad(const Spec& spec, const std::string& name, const std::string& expected) {
  return Error(Code::invalid_argument, fmt::format("[compression] option '{}' of {}; got '{}', expected {}", name, spec.name,
                                                   spec.options.at(name), expected));
}

template <typename T>
std::optional<T> number(const Spec& spec, const std::string& name, bool (*allowed)(T), const char* expected) {
  const auto found = spec.options.find(name);
  if (found == spec.options.end()) return std::nullopt;
  const auto& text = found->second;
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !allowed(value)) throw bad(spec, name, expected);
  return value;
}

}  // namespace

std::size_t kept_elements(const Spec& spec, std::size_t elements) {
  const auto ratio = number<double>(spec, "ratio", [](double r) { return r > 0 && r <= 1; }, "a number above 0, at most 1").value_or(0.01);
  return std::max(std::size_t{1}, static_cast<std::size_t>(std::llround(ratio * static_cast<double>(elements))));
}

std::size_t count_option(const Spec& spec, const std::string& name, std::size_t otherwise) {
  return number<std::size_t>(spec, name, [](std::size_t n) { return n >= 1; }, "a whole number from 1 on").value_or(otherwise);
}

std::size_t bytes_option(const Spec& spec, const std::string& name, std::size_t otherwise, std::size_t element) {
  constexpr std::int64_t kLeast = 8;  // one element of any type
  const auto found = spec.options.find(name);
  if (found == spec.options.end()) return otherwise / element;
  std::int64_t bytes = 0;
  try {
    bytes = parse_bytes(found->second).value;
  } catch (const Error&) {
  }
  if (bytes < kLeast) throw bad(spec, name, "bytes, as 4KiB, at least 8B");
  return static_cast<std::size_t>(bytes) / element;
}

std::string word_option(const Spec& spec, const std::string& name, const std::vector<std::string>& known, std::size_t otherwise) {
  const auto found = spec.options.find(name);
  if (found == spec.options.end()) return known[otherwise];
  if (std::find(known.begin(), known.end(), found->second) == known.end())
    throw bad(spec, name, fmt::format("one of: {}{}", join(known, " "), did_you_mean(found->second, known)));
  return found->second;
}

std::optional<std::uint64_t> seed_option(const Spec& spec) {
  return number<std::uint64_t>(spec, "seed", [](std::uint64_t) { return true; }, "a whole number from 0 on");
}

}  // namespace ddl
