#include "ddl/measure/environment.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <gnu/libc-version.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/measure/clock.h"
#include "ddl/measure/memory.h"

extern char** environ;

namespace ddl {
namespace {

namespace fs = std::filesystem;

/// A file's content without the last line end; nothing where it cannot be read.
std::optional<std::string> content(const std::string& path) {
  std::ifstream in(path);
  if (!in) return std::nullopt;
  std::ostringstream all;
  all << in.rdbuf();
  return std::string(trim(all.str()));
}

Json text_or_null(const std::optional<std::string>& text) { return text ? Json(*text) : Json(nullptr); }

std::optional<std::int64_t> whole_number(const std::string& text) {
  char* end = nullptr;
  const auto number = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0') return std::nullopt;
  return number;
}

Json number_or_null(const std::optional<std::string>& text) {
  const auto number = text ? whole_number(*text) : std::nullopt;
  return number ? Json(*number) : Json(nullptr);
}

/// The values of a key in a file of `key<separator>value` lines, one per occurrence.
std::vector<std::string> values(const std::string& file, std::string_view key, char separator) {
  std::vector<std::string> found;
  std::istringstream lines(content(file).value_or(""));
  for (std::string line; std::getline(lines, line);) {
    const auto at = line.find(separator);
    if (at != std::string::npos && trim(std::string_view(line).substr(0, at)) == key)
      found.emplace_back(trim(std::string_view(line).substr(at + 1)));
  }
  return found;
}

Json capture_os() {
  utsname names{};
  const bool known = ::uname(&names) == 0;
  auto distribution = values("/etc/os-release", "PRETTY_NAME", '=');
  if (!distribution.empty()) std::erase(distribution.front(), '"');
  return {
      {"kernel", known ? Json(fmt::format("{} {} {}", names.sysname, names.release, names.machine)) : Json(nullptr)},
      {"distribution", distribution.empty() ? Json(nullptr) : Json(distribution.front())},
      {"libc", fmt::format("glibc {}", ::gnu_get_libc_version())}};
}

Json capture_isa() {
  const auto lines = values("/proc/cpuinfo", "flags", ':');
  if (lines.empty()) return nullptr;
  const auto flags = split(lines.front(), ' ');
  Json present = Json::array();
  for (const auto* flag : {"sse4_2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16",
                           "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8", "hypervisor"})
    if (std::find(flags.begin(), flags.end(), flag) != flags.end()) present.push_back(flag);
  return present;
}

Json capture_topology() {
  const auto packages = values("/proc/cpuinfo", "physical id", ':'), cores = values("/proc/cpuinfo", "core id", ':');
  if (packages.empty() || packages.size() != cores.size()) return nullptr;
  std::set<std::string> sockets, physical;
  for (std::size_t i = 0; i < packages.size(); ++i) {
    sockets.insert(packages[i]);
    physical.insert(packages[i] + "/" + cores[i]);
  }
  return {{"sockets", sockets.size()}, {"physical_cores", physical.size()},
          {"threads_per_core", static_cast<double>(packages.size()) / static_cast<double>(physical.size())}};
}

Json capture_cpu() {
  const auto model = values("/proc/cpuinfo", "model name", ':');
  cpu_set_t usable;
  CPU_ZERO(&usable);
  const bool affinity = ::sched_getaffinity(0, sizeof usable, &usable) == 0;
  const auto speeds = values("/proc/cpuinfo", "cpu MHz", ':');
  const auto cache = last_level_cache_bytes();
  double sum = 0;
  for (const auto& speed : speeds) sum += std::strtod(speed.c_str(), nullptr);
  return {{"model", model.empty() ? Json(nullptr) : Json(model.front())},
          {"logical_cores", std::thread::hardware_concurrency()},
          {"usable_cores", affinity ? Json(CPU_COUNT(&usable)) : Json(nullptr)},
          {"cache_bytes", cache > 0 ? Json(cache) : Json(nullptr)},
          {"topology", capture_topology()},
          {"governor", text_or_null(content("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"))},
          {"isa", capture_isa()},
          {"mhz", speeds.empty() ? Json(nullptr) : Json(std::round(sum / static_cast<double>(speeds.size())))}};
}

Json meminfo_bytes(std::string_view key) {
  const auto found = values("/proc/meminfo", key, ':');
  if (found.empty()) return nullptr;
  return std::strtoll(found.front().c_str(), nullptr, 10) * 1024;
}

Json capture_memory() {
  // The setting in use stands in brackets: "always [madvise] never".
  auto huge = content("/sys/kernel/mm/transparent_hugepage/enabled");
  if (huge) {
    const auto open = huge->find('['), close = huge->find(']');
    if (open < close && close != std::string::npos) huge = huge->substr(open + 1, close - open - 1);
  }
  Json nodes = nullptr;
  std::error_code error;
  int count = 0;
  for (const auto& entry : fs::directory_iterator("/sys/devices/system/node", error)) {
    const auto name = entry.path().filename().string();
    if (name.rfind("node", 0) == 0 && name.size() > 4 && std::isdigit(static_cast<unsigned char>(name[4])) != 0)
      ++count;
  }
  if (!error && count > 0) nodes = count;
  return {{"total_bytes", meminfo_bytes("MemTotal")}, {"available_bytes", meminfo_bytes("MemAvailable")},
          {"transparent_huge_pages", text_or_null(huge)}, {"numa_nodes", nodes}};
}

/// The tightest limit of this process's cgroup (version 2) and all above it; version 1's own where that is mounted.
Json capture_cgroup() {
  std::optional<double> cores;
  std::optional<std::int64_t> memory;
  const auto tighten = [](auto& limit, auto value) { limit = limit ? std::min(*limit, value) : value; };
  fs::path path;
  const auto own = values("/proc/self/cgroup", "0", ':');
  if (!own.empty()) path = own.front().substr(own.front().find(':') + 1);
  // Inside a container the path may be that of the host; the root is then what limits us.
  for (;; path = path.parent_path()) {
    const auto folder = "/sys/fs/cgroup" + (path == "/" ? "" : path.string());
    const auto quota = split(content(folder + "/cpu.max").value_or(""), ' ');
    if (quota.size() == 2 && quota[0] != "max")
      tighten(cores, std::strtod(quota[0].c_str(), nullptr) / std::strtod(quota[1].c_str(), nullptr));
    if (const auto most = whole_number(content(folder + "/memory.max").value_or(""))) tighten(memory, *most);
    if (path.empty() || path == path.parent_path()) break;
  }
  const auto quota = whole_number(content("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").value_or(""));
  const auto period = whole_number(content("/sys/fs/cgroup/cpu/cpu.cfs_period_us").value_or(""));
  if (quota && period && *quota > 0 && *period > 0)
    tighten(cores, static_cast<double>(*quota) / static_cast<double>(*period));
  // Version 1 writes "no limit" as a number near 2^63.
  const auto most = whole_number(content("/sys/fs/cgroup/memory/memory.limit_in_bytes").value_or(""));
  if (most && *most < std::int64_t{1} << 60) tighten(memory, *most);
  return {{"cpu_cores", cores ? Json(*cores) : Json(nullptr)},
          {"memory_limit_bytes", memory ? Json(*memory) : Json(nullptr)}};
}

Json capture_load() {
  std::array<double, 3> load{};
  if (::getloadavg(load.data(), 3) != 3) return nullptr;
  return {load[0], load[1], load[2]};
}

bool allowed(std::string_view name) {
  constexpr std::array<std::string_view, 9> kPrefixes{"OMP_", "MKL_", "OPENBLAS_", "DDLBENCH_OPENBLAS", "KMP_", "TORCH_", "NCCL_", "GLOO_", "SLURM_"};
  constexpr std::array<std::string_view, 8> kSecrets{"TOKEN", "KEY", "SECRET", "PASS", "CRED", "JWT", "AUTH", "COOKIE"};
  const auto begins = [&](std::string_view prefix) { return name.substr(0, prefix.size()) == prefix; };
  const auto holds = [&](std::string_view word) { return name.find(word) != std::string_view::npos; };
  return std::any_of(kPrefixes.begin(), kPrefixes.end(), begins) &&
         std::none_of(kSecrets.begin(), kSecrets.end(), holds);
}

Json capture_variables() {
  std::set<std::string> lines;
  for (char** variable = environ; *variable != nullptr; ++variable) lines.insert(*variable);
  Json found = Json::object();
  for (const auto& line : lines) {
    const auto at = line.find('=');
    if (at != std::string::npos && allowed(line.substr(0, at))) found[line.substr(0, at)] = line.substr(at + 1);
  }
  return found;
}

/// A number at a path such as "/cpu/mhz"; nothing where a capture lacks it or holds null.
std::optional<double> number_at(const Json& capture, const char* pointer) {
  const Json::json_pointer path(pointer);
  if (!capture.contains(path) || !capture.at(path).is_number()) return std::nullopt;
  return capture.at(path).get<double>();
}

}  // namespace

Json capture_environment() {
  std::array<char, 256> host{};
  const bool named = ::gethostname(host.data(), host.size() - 1) == 0;
  return {{"host", named ? Json(host.data()) : Json(nullptr)},
          {"os", capture_os()},
          {"cpu", capture_cpu()},
          {"memory", capture_memory()},
          {"cgroup", capture_cgroup()},
          {"aslr", number_or_null(content("/proc/sys/kernel/randomize_va_space"))},
          {"load", capture_load()},
          {"variables", capture_variables()},
          {"time", utc_now()}};
}

Json environment_drift(const Json& before, const Json& after) {
  Json sentences = Json::array();
  const auto both = [&](const char* pointer, auto compare) {
    const auto was = number_at(before, pointer), is = number_at(after, pointer);
    if (was && is) compare(*was, *is);
  };
  const double cores = number_at(after, "/cpu/usable_cores").value_or(1);
  both("/load/0", [&](double was, double is) {
    // Our own workers raise the load up to the number of cores; beyond that somebody else ran too.
    if (is > cores * 1.25 && is > was + 0.5)
      sentences.push_back(fmt::format("load rose from {:.2f} to {:.2f} on {:.0f} usable cores: something else ran too",
                                      was, is, cores));
    if (was > 0.5 * cores)
      sentences.push_back(
          fmt::format("the machine was busy before the run: load {:.2f} on {:.0f} usable cores", was, cores));
  });
  both("/memory/available_bytes", [&](double was, double is) {
    const double total = number_at(after, "/memory/total_bytes").value_or(was);
    if (std::abs(is - was) > 0.1 * total)
      sentences.push_back(fmt::format("available memory {} from {:.2f} GiB to {:.2f} GiB", is < was ? "fell" : "rose",
                                      was / (1 << 30), is / (1 << 30)));
  });
  both("/cpu/mhz", [&](double was, double is) {
    if (std::abs(is - was) > 0.1 * was)
      sentences.push_back(
          fmt::format("CPU frequency {} from {:.0f} MHz to {:.0f} MHz", is < was ? "fell" : "rose", was, is));
  });
  const Json::json_pointer governor("/cpu/governor");
  if (before.contains(governor) && after.contains(governor) && before.at(governor) != after.at(governor))
    sentences.push_back(
        fmt::format("CPU governor changed from {} to {}", before.at(governor).dump(), after.at(governor).dump()));
  return sentences;
}

}  // namespace ddl
