#include "ddl/core/spec.h"

#include <algorithm>

#include "ddl/core/error.h"
#include "ddl/core/text.h"

namespace ddl {

std::vector<std::string> split_outside_brackets(std::string_view text, char at) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    if (c == '[') ++depth;
    if (c == ']') --depth;
    if (c == at && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

Spec parse_spec(std::string_view text) {
  const auto whole = text;
  const auto fail = [&](std::string_view what, std::size_t place) {
    return Error(Code::invalid_argument,
                 fmt::format("[spec] {}; got '{}' (character {}), expected name or name[key=value,…]", what, whole,
                             place + 1));
  };
  text = trim(text);
  const auto open = text.find('[');
  Spec spec{std::string(trim(text.substr(0, open))), {}};
  if (spec.name.empty()) throw fail("no name", 0);
  if (spec.name.find_first_of("]=,") != std::string::npos) throw fail("stray character in the name", text.find_first_of("]=,"));
  if (open == std::string_view::npos) return spec;
  if (text.back() != ']') throw fail("'[' without ']' at the end", open);
  const auto inside = text.substr(open + 1, text.size() - open - 2);
  int depth = 0;
  for (std::size_t i = 0; i < inside.size(); ++i) {
    if (inside[i] == '[') ++depth;
    if (inside[i] == ']' && --depth < 0) throw fail("']' without '['", open + 1 + i);
  }
  if (depth != 0) throw fail("'[' without ']'", open);
  if (trim(inside).empty()) return spec;
  for (const auto& part : split_outside_brackets(inside)) {
    if (const auto bracket = part.find('['); bracket < part.find('=')) throw fail("bracket in an option's name", open);
    const auto equals = part.find('=');
    const auto key = std::string(trim(std::string_view(part).substr(0, equals)));
    const auto value = equals == std::string::npos ? "on" : std::string(trim(std::string_view(part).substr(equals + 1)));
    if (key.empty() || value.empty()) throw fail("option without a name or value", open);
    if (!spec.options.emplace(key, value).second) throw fail(fmt::format("option '{}' given twice", key), open);
  }
  return spec;
}

std::string to_string(const Spec& spec) {
  if (spec.options.empty()) return spec.name;
  std::vector<std::string> parts;
  for (const auto& [key, value] : spec.options) parts.push_back(key + "=" + value);
  return spec.name + "[" + join(parts, ",") + "]";
}

void require_options(const Spec& spec, const std::vector<std::string>& known) {
  for (const auto& [key, value] : spec.options)
    if (std::find(known.begin(), known.end(), key) == known.end())
      throw Error(Code::invalid_argument,
                  fmt::format("[{}] unknown option '{}'{}; expected {}", spec.name, key, did_you_mean(key, known),
                              known.empty() ? "none" : "one of: " + join(known, " ")));
}

}  // namespace ddl
