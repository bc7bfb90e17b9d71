#include "ddl/cli/output.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "ddl/core/error.h"

namespace ddl {
namespace {

/// 0, or the errno of the write that failed.
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const auto written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

/// Code points, which is what a terminal counts for the words we print.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

void Output::data(std::string_view text) const {
  const int error = write_all(STDOUT_FILENO, text);
  if (error != 0 && error != EPIPE) throw system_error("[stdout] cannot write to standard output", error);
}

void Output::document(const Json& value) const {
  data(value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

void Output::say(std::string_view line) const {
  if (!quiet) write_all(STDERR_FILENO, std::string(line) + "\n");
}

void print_error(std::string_view message) {
  std::string line(message);
  std::replace_if(line.begin(), line.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  while (!line.empty() && line.back() == ' ') line.pop_back();
  write_all(STDERR_FILENO, fmt::format("ddlbench: {} {}\n", paint("error:", Colour::red, STDERR_FILENO), line));
}

std::string paint(std::string_view text, Colour colour, int fd) {
  const char* no_colour = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  const bool wanted = (no_colour == nullptr || *no_colour == '\0') && ::isatty(fd) == 1 &&
                      (terminal == nullptr || std::string_view(terminal) != "dumb");
  if (!wanted || colour == Colour::plain) return std::string(text);
  const int code = colour == Colour::red ? 31 : colour == Colour::green ? 32 : colour == Colour::yellow ? 33 : 2;
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

std::string columns(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (widths.size() <= i) widths.push_back(0);
      widths[i] = std::max(widths[i], width(row[i]));
    }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += row[i] + (i + 1 < row.size() ? std::string(widths[i] - width(row[i]) + 2, ' ') : "");
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace ddl
