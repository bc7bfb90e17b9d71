#include "ddl/core/error.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace ddl {
namespace {

constexpr std::array<std::pair<Code, std::string_view>, 8> kNames{{
    {Code::invalid_argument, "invalid_argument"},
    {Code::not_found, "not_found"},
    {Code::unsupported, "unsupported"},
    {Code::io, "io"},
    {Code::timeout, "timeout"},
    {Code::peer_lost, "peer_lost"},
    {Code::corrupt, "corrupt"},
    {Code::interrupted, "interrupted"},
}};

}  // namespace

std::string_view name(Code code) {
  for (const auto& [value, word] : kNames)
    if (value == code) return word;
  return "?";
}

Code code_from_name(std::string_view word) {
  for (const auto& [value, known] : kNames)
    if (known == word) return value;
  throw Error(Code::invalid_argument, fmt::format("[error] no such code; got '{}'", word));
}

Error::Error(Code code, const std::string& message, std::source_location where)
    : std::runtime_error(message), code_(code), where_(where) {}

void invariant(bool holds, std::string_view what, std::source_location where) {
  if (holds) return;
  std::fprintf(stderr, "ddlbench: broken invariant: %.*s (%s:%u)\n", static_cast<int>(what.size()),
               what.data(), where.file_name(), static_cast<unsigned>(where.line()));
  std::abort();
}

Error system_error(std::string_view what, int number, std::source_location where) {
  return Error(Code::io, fmt::format("{}: {}", what, std::strerror(number)), where);
}

}  // namespace ddl
