#include "ddl/measure/trace.h"

namespace ddl {

std::string_view name(Cause cause) {
  constexpr std::array<std::string_view, kCauses> kNames{"load", "copy",   "forward", "backward", "communication",
                                                         "wait", "bubble", "update",  "harness",  "residual"};
  return kNames[static_cast<std::size_t>(cause)];
}

std::string_view name(Stream stream) {
  constexpr std::array<std::string_view, kStreams> kNames{"compute", "communication", "loader", "server"};
  return kNames[static_cast<std::size_t>(stream)];
}

}  // namespace ddl
