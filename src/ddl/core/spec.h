#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ddl {

/// A name with options in brackets, as users write strategies, workers and networks:
/// `data[collective=ring,bucket=25MiB]`, `cpu[threads=1]`, `parameter-server[async]` (a bare word is `word=on`). A value
/// may have brackets of its own: `data[compress=top-k[ratio=0.01]]`.
struct Spec {
  std::string name;
  std::map<std::string, std::string> options;

  bool operator==(const Spec&) const = default;
};

/// Errors: invalid_argument with the place of the first character that does not fit.
Spec parse_spec(std::string_view text);

/// Splits at commas that stand outside brackets: `cpu[a=1,b=2]:2,cuda:1` -> two parts.
std::vector<std::string> split_outside_brackets(std::string_view text, char at = ',');

/// The form that parses back to the same Spec, options in alphabetical order.
std::string to_string(const Spec& spec);

/// Errors: invalid_argument naming the first option that is not among `known`, and the nearest that is.
void require_options(const Spec& spec, const std::vector<std::string>& known);

}  // namespace ddl
