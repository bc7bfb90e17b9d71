#include "ddl/cli/exit_codes.h"

namespace ddl {

Exit exit_for(Code code) {
  switch (code) {
    case Code::invalid_argument:
    case Code::not_found: return Exit::usage;
    case Code::unsupported: return Exit::refused;
    case Code::timeout: return Exit::timeout;
    case Code::interrupted: return Exit::interrupted;
    case Code::io:
    case Code::peer_lost:
    case Code::corrupt: return Exit::failure;
  }
  return Exit::failure;
}

Exit exit_for_record(const Json& record) {
  const auto state = record.value("state", std::string("failed"));
  if (state == "ok") return Exit::ok;
  if (state == "timeout") return Exit::timeout;
  if (state == "skipped") return Exit::partial;
  if (state != "interrupted") return Exit::failure;
  const auto reason = record.find("reason");
  const bool terminated = reason != record.end() && reason->is_string() &&
                          reason->get_ref<const std::string&>().find("SIGTERM") != std::string::npos;
  return terminated ? Exit::terminated : Exit::interrupted;
}

}  // namespace ddl
