#include "ddl/cli/doctor_checks.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <link.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/core/units.h"
#include "ddl/data/dataset.h"
#include "ddl/lab/build_info.h"
#include "ddl/measure/gpus.h"
#include "ddl/nn/found_openblas.h"
#include "ddl/subject/python.h"
#include "ddl/train/device_list.h"
#include "ddl/transport/builtin.h"
#include "ddl/transport/mpi/launcher.h"
#include "ddl/transport/network_namespace.h"
#include "ddl/transport/system_command.h"

namespace ddl {
namespace {

namespace fs = std::filesystem;
using Verdict = Finding::Verdict;

Finding torch() {
  std::string loaded;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* found) {
        if (std::string_view(info->dlpi_name).find("libtorch_cpu") != std::string_view::npos)
          *static_cast<std::string*>(found) = info->dlpi_name;
        return 0;
      },
      &loaded);
  const auto version = build_info()["torch"].get<std::string>();
  if (loaded.empty()) return {"LibTorch", Verdict::fail, "built for " + version + ", but none is loaded"};
  return {"LibTorch", Verdict::ok, version + ", " + loaded};
}

/// None is no fault of an installation. A GPU that cannot be used is worth a word.
Finding gpus() {
  const auto& found = known_gpus();
  std::string missing;
  for (const auto& kind : device_kinds())
    if (kind.name == "cuda") missing = kind.missing;
  if (found.all.empty()) return {"GPUs", Verdict::ok, "none: " + found.missing};
  std::string says = fmt::format("driver for CUDA {}", found.driver);
  for (std::size_t i = 0; i < found.all.size(); ++i)
    says += fmt::format("; cuda:{} {}, {}, {}.{}", i, found.all[i].product, to_string(found.all[i].memory), found.all[i].major, found.all[i].minor);
  if (!missing.empty()) return {"GPUs", Verdict::warn, says + "; but " + missing};
  return {"GPUs", Verdict::ok, says};
}

Finding isa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) return {"processor", Verdict::ok, "x86-64 with AVX-512"};
  if (__builtin_cpu_supports("avx2")) return {"processor", Verdict::ok, "x86-64 with AVX2"};
  return {"processor", Verdict::warn, "x86-64 without AVX2: kernels run several times slower"};
#else
  return {"processor", Verdict::ok, "not x86-64: LibTorch picks its kernels"};
#endif
}

/// Where there is none all that is lost is time, and nobody would notice.
Finding products() {
  try {
    if (has_openblas()) return {"products", Verdict::ok, "MKL, oneDNN, and large ones on one thread by " + openblas_told() + ", where it is measured to be faster"};
    return {"products", Verdict::warn, "MKL and oneDNN, no OpenBLAS (libopenblas0-pthread), with which a processor without AVX-512 trains networks of large layers in up to a sixth less time: " + openblas_missing()};
  } catch (const Error& error) {
    return {"products", Verdict::fail, error.what()};
  }
}

Finding cores() {
  cpu_set_t usable;
  CPU_ZERO(&usable);
  const int count = ::sched_getaffinity(0, sizeof usable, &usable) == 0 ? CPU_COUNT(&usable) : 1;
  const auto all = std::thread::hardware_concurrency();
  const auto says = fmt::format("{} usable of {}", count, all);
  if (count < 2) return {"cores", Verdict::warn, says + "; two workers share one, so that speed-up cannot be measured"};
  const char* threads = std::getenv("OMP_NUM_THREADS");
  if (threads != nullptr && std::atoi(threads) > count)
    return {"cores", Verdict::warn, fmt::format("{}, but OMP_NUM_THREADS={} asks for more", says, threads)};
  return {"cores", Verdict::ok, fmt::format("{}: up to {} workers of one thread without sharing", says, count)};
}

/// What transport shm stands on: anonymous memory that another process opens through /proc.
Finding shared_memory() {
  const int fd = ::memfd_create("ddlbench-doctor", MFD_CLOEXEC);
  if (fd < 0) return {"shared memory", Verdict::fail, fmt::format("memfd_create: {}", std::strerror(errno))};
  const bool sized = ::ftruncate(fd, 4096) == 0;
  const auto path = fmt::format("/proc/{}/fd/{}", ::getpid(), fd);
  const int again = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  const int error = errno;
  if (again >= 0) ::close(again);
  ::close(fd);
  if (!sized || again < 0) return {"shared memory", Verdict::fail, fmt::format("{}: {}", path, std::strerror(error))};
  return {"shared memory", Verdict::ok, "memfd, opened again through /proc/PID/fd"};
}

Finding loopback() {
  const auto failed = [](const char* what) { return Finding{"tcp", Verdict::fail, fmt::format("{}: {}", what, std::strerror(errno))}; };
  const int server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (server < 0) return failed("socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  const bool listening = ::bind(server, generic, length) == 0 && ::listen(server, 1) == 0 && ::getsockname(server, generic, &length) == 0;
  const int client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool connected = listening && client >= 0 && ::connect(client, generic, length) == 0;
  auto finding = connected ? Finding{"tcp", Verdict::ok, "connects over loopback"} : failed("loopback");
  if (client >= 0) ::close(client);
  ::close(server);
  return finding;
}

Finding dataset(const std::string& name) {
  try {
    const auto pair = builtin_datasets().at(name).make(DatasetOptions{});
    return {"data: " + name, Verdict::ok, fmt::format("{} training and {} test samples", pair.train->size(), pair.test->size())};
  } catch (const Error& error) {
    return {"data: " + name, Verdict::warn, fmt::format("only with --synthetic: {}", error.what())};
  }
}

/// The peer runs in a Python that has torch; ddlbench itself needs none.
Finding python() {
  const auto found = find_python();
  if (found.missing.empty()) return {"Python", Verdict::ok, found.executable + ", for the subject torch-ddp"};
  return {"Python", Verdict::warn, "subject torch-ddp is not available: " + found.missing};
}

/// Its library and its launcher.
Finding one_mpi(const MpiImplementation& implementation) {
  const auto check = "mpi: " + implementation.name;
  const auto missing = implementation.missing.empty() ? why_not_loaded(implementation) : implementation.missing;
  if (!missing.empty()) return {check, Verdict::warn, "not available: " + missing};
  try {
    return {check, Verdict::ok, implementation.title + ", started by " + launcher_command(implementation, {{"true"}}).command.front()};
  } catch (const Error& error) {
    return {check, Verdict::warn, fmt::format("its library loads, but {}", error.what())};
  }
}

Finding slurm() {
  try {
    return {"SLURM", Verdict::ok, std::string(trim(run_command({"srun", "--version"}, "Debian's slurm-client"))) + ", its srun starts ranks"};
  } catch (const Error& error) {
    return {"SLURM", Verdict::warn, fmt::format("not available: {}", error.what())};
  }
}

Finding fabric() {
  try {
    require_namespaces();
    const auto ip = run_iproute2({"ip", "-V"});
    run_iproute2({"tc", "-V"});
    return {"test fabric", Verdict::ok, std::string(trim(ip)) + ", and may make network namespaces"};
  } catch (const Error& error) {
    return {"test fabric", Verdict::warn, fmt::format("no --fabric: {}", error.what())};
  }
}

/// Those whose parts a build can lack.
std::vector<Finding> optional_transports() {
  std::vector<Finding> findings;
  for (const auto registry = builtin_transports(); const auto& entry : registry.entries())
    if (entry.name == "nccl" || entry.name == "gloo")
      findings.push_back(entry.missing.empty() ? Finding{"transport: " + entry.name, Verdict::ok, entry.summary}
                                               : Finding{"transport: " + entry.name, Verdict::warn, "not available: " + entry.missing});
  return findings;
}

Finding store_writable(const std::string& store) {
  if (store == "none") return {"store", Verdict::ok, "none"};
  const auto folder = fs::path(store).parent_path().empty() ? fs::path(".") : fs::path(store).parent_path();
  std::error_code unreadable;
  const bool exists = fs::exists(store, unreadable);
  const auto target = exists ? fs::path(store) : folder;
  if (::access(target.c_str(), W_OK) != 0) return {"store", Verdict::fail, fmt::format("{}: {}", target.string(), std::strerror(errno))};
  return {"store", Verdict::ok, store + (exists ? " can be written" : " can be made")};
}

Finding disk(const std::string& store) {
  struct statvfs found {};
  const auto parent = fs::path(store == "none" ? "" : store).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  if (::statvfs(folder.c_str(), &found) != 0) return {"disk", Verdict::warn, fmt::format("{}: {}", folder, std::strerror(errno))};
  const Bytes free{static_cast<std::int64_t>(found.f_bavail * found.f_frsize)};
  return {"disk", free.value < (64 << 20) ? Verdict::fail : free.value < (1 << 30) ? Verdict::warn : Verdict::ok,
          to_string(free) + " free"};
}

Finding memory() {
  std::ifstream in("/proc/meminfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("MemAvailable:")) {
      const Bytes free{std::atoll(line.c_str() + 13) * 1024};
      return {"memory", free.value < (512 << 20) ? Verdict::fail : free.value < (2LL << 30) ? Verdict::warn : Verdict::ok,
              to_string(free) + " available"};
    }
  return {"memory", Verdict::warn, "/proc/meminfo does not say"};
}

}  // namespace

std::vector<Finding> examine(const std::string& store) {
  std::vector<Finding> findings{torch(), gpus(), isa(), products(), cores(), memory(), disk(store), shared_memory(), loopback(), store_writable(store)};
  for (const auto& name : {"fashion-mnist", "mnist", "translation"}) findings.push_back(dataset(name));
  findings.push_back(python());
  for (const auto& implementation : mpi_implementations()) findings.push_back(one_mpi(implementation));
  findings.push_back(slurm());
  for (auto& finding : optional_transports()) findings.push_back(std::move(finding));
  findings.push_back(fabric());
  return findings;
}

}  // namespace ddl
