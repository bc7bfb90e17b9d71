#include "ddl/measure/gpus.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>

#include "ddl/core/error.h"
#include "ddl/measure/clock.h"

namespace ddl {
namespace {

/// The few functions of the driver that are called, by their stable names: no header of CUDA's is needed.
class Driver {
 public:
  explicit Driver(const char* library) : handle_(::dlopen(library, RTLD_NOW | RTLD_LOCAL)) {}
  bool loaded() const { return handle_ != nullptr; }

  template <typename... Arguments>
  int call(const char* function, Arguments... arguments) const {
    constexpr int kNotFound = 500;  // CUDA_ERROR_NOT_FOUND
    auto* const found = reinterpret_cast<int (*)(Arguments...)>(::dlsym(handle_, function));
    return found == nullptr ? kNotFound : found(arguments...);
  }

  std::string describe(int error) const {
    const char* text = nullptr;
    call("cuGetErrorString", error, &text);
    return text != nullptr ? fmt::format("{} (error {})", text, error) : fmt::format("error {}", error);
  }

 private:
  void* handle_;
};

/// What the child says: a line for everything, fields in order, names last since they hold spaces.
std::string ask(const std::string& library) {
  constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
  const Driver driver(library.c_str());
  if (!driver.loaded()) return fmt::format("missing no NVIDIA driver is here ({})\n", ::dlerror());
  if (const int error = driver.call("cuInit", 0U); error != 0) return fmt::format("missing the NVIDIA driver does not start: {}\n", driver.describe(error));
  int version = 0, count = 0;
  driver.call("cuDriverGetVersion", &version);
  auto text = fmt::format("driver {}.{}\n", version / 1000, version % 1000 / 10);
  if (const int error = driver.call("cuDeviceGetCount", &count); error != 0)
    return fmt::format("missing the NVIDIA driver does not say what GPUs there are: {}\n", driver.describe(error));
  if (count == 0) return text + "missing the NVIDIA driver knows of no GPU (CUDA_VISIBLE_DEVICES hides those that it does not name)\n";
  for (int number = 0; number < count; ++number) {
    int device = 0, major = 0, minor = 0;
    std::size_t memory = 0;
    char product[256] = {};
    for (const int error : {driver.call("cuDeviceGet", &device, number), driver.call("cuDeviceGetName", product, static_cast<int>(sizeof product) - 1, device),
                            driver.call("cuDeviceTotalMem_v2", &memory, device), driver.call("cuDeviceGetAttribute", &major, kMajor, device),
                            driver.call("cuDeviceGetAttribute", &minor, kMinor, device)})
      if (error != 0) return fmt::format("missing the NVIDIA driver does not describe GPU {}: {}\n", number, driver.describe(error));
    text += fmt::format("gpu {} {} {} {}\n", memory, major, minor, product);
  }
  return text;
}

Gpus read(const std::string& said) {
  Gpus gpus;
  std::istringstream lines(said);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string kind;
    fields >> kind;
    if (kind == "driver") {
      fields >> gpus.driver;
    } else if (kind == "gpu") {
      InstalledGpu gpu;
      fields >> gpu.memory.value >> gpu.major >> gpu.minor >> std::ws;
      std::getline(fields, gpu.product);
      gpus.all.push_back(std::move(gpu));
    } else if (kind == "missing") {
      std::getline(fields >> std::ws, gpus.missing);
    }
  }
  if (gpus.all.empty() && gpus.missing.empty()) gpus.missing = "the NVIDIA driver ended the process that asked it for GPUs";
  return gpus;
}

[[noreturn]] void answer(int pipe, const std::string& library) {
  // What a broken driver prints is nobody's output.
  if (const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC); null >= 0)
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, fd);
  const auto said = ask(library);
  for (std::size_t written = 0; written < said.size();) {
    const auto more = ::write(pipe, said.data() + written, said.size() - written);
    if (more < 0 && errno != EINTR) break;
    if (more > 0) written += static_cast<std::size_t>(more);
  }
  ::_exit(0);
}

}  // namespace

Gpus find_gpus(const std::string& library, Seconds patience) {
  const auto failed = [](const char* what) { return Gpus{.missing = fmt::format("whether there are GPUs could not be found out: {}: {}", what, std::strerror(errno))}; };
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) return failed("pipe");
  const pid_t child = ::fork();
  if (child == 0) answer(pipe[1], library);
  ::close(pipe[1]);
  if (child < 0) {
    const auto gpus = failed("fork");
    ::close(pipe[0]);
    return gpus;
  }
  std::string said;
  bool late = false;
  for (const Nanoseconds until = now() + static_cast<Nanoseconds>(patience.value * 1e9);;) {
    pollfd readable{pipe[0], POLLIN, 0};
    const auto left = (until - now()) / 1'000'000;
    const int ready = ::poll(&readable, 1, static_cast<int>(left > 0 ? left : 0));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      late = true;
      break;
    }
    char block[4096];
    const auto got = ::read(pipe[0], block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    said.append(block, static_cast<std::size_t>(got));
  }
  ::close(pipe[0]);
  if (late) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (late) return Gpus{.missing = fmt::format("the NVIDIA driver did not answer within {}", to_string(patience))};
  return read(said);
}

const Gpus& known_gpus() {
  static const Gpus gpus = find_gpus();
  return gpus;
}

}  // namespace ddl
