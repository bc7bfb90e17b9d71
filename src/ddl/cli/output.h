#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ddl/core/json.h"

namespace ddl {

/// Where a command's words go: data to standard output, everything for people to standard error.
struct Output {
  bool json = false;   ///< one document on standard output, nothing else there
  bool quiet = false;  ///< nothing on standard error but errors

  /// A reader that has gone away (`| head`) is no error. Errors: io.
  void data(std::string_view text) const;
  /// Indented, with a line end.
  void document(const Json& value) const;
  /// A line for people, left out when quiet.
  void say(std::string_view line) const;
};

/// `ddlbench: error: …`, always one line.
void print_error(std::string_view message);

enum class Colour { plain, red, green, yellow, dim };
/// `text` in colour where `fd` is a terminal and NO_COLOR is not set.
std::string paint(std::string_view text, Colour colour, int fd);

/// Columns of text, each as wide as its widest cell; the last is not padded. The first row is the header.
std::string columns(const std::vector<std::vector<std::string>>& rows);

}  // namespace ddl
