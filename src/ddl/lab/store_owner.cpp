#include "ddl/lab/store_owner.h"

#include <unistd.h>

#include <array>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

namespace ddl {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

/// -1 where there is no such process, or only its zombie.
long long start_of(long process) {
  const std::string stat = first_line(fmt::format("/proc/{}/stat", process));
  // The second field is the name in brackets, which may itself hold brackets and blanks.
  const auto bracket = stat.rfind(')');
  if (bracket == std::string::npos) return -1;
  std::istringstream fields(stat.substr(bracket + 1));
  std::string field;
  fields >> field;
  if (field == "Z" || field == "X") return -1;
  for (int i = 4; i <= 22; ++i) fields >> field;
  return fields ? std::stoll(field) : -1;
}

std::string boot_id() { return first_line("/proc/sys/kernel/random/boot_id"); }

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace

Owner this_process() { return {::getpid(), start_of(::getpid()), boot_id(), host_name()}; }

std::string to_text(const Owner& owner) {
  return fmt::format("{} {} {} {}", owner.process, owner.start, owner.boot.empty() ? "?" : owner.boot, owner.host);
}

Owner owner_from_text(const std::string& line) {
  Owner owner;
  std::istringstream in(line);
  if (!(in >> owner.process >> owner.start >> owner.boot)) return {};
  in >> owner.host;
  if (owner.boot == "?") owner.boot.clear();
  return owner;
}

bool is_gone(const Owner& owner, bool shared_between_hosts) {
  if (owner.process <= 0) return true;
  if (owner.boot == boot_id()) return start_of(owner.process) != owner.start;
  return !shared_between_hosts || owner.host == host_name();
}

}  // namespace ddl
