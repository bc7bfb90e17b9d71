#include "ddl/train/device_list.h"

#include <charconv>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/measure/gpus.h"
#include "ddl/predict/datasheet/library.h"
#include "ddl/train/devices/cuda_library.h"

namespace ddl {
namespace {

std::string cuda_missing() {
  if (cuda_library().empty())
    return fmt::format("this LibTorch has no CUDA; got {}, expected a wheel of torch with CUDA (the plain index has it)", DDL_TORCH_VERSION);
  return known_gpus().missing;
}

std::string there_are(std::size_t gpus) { return gpus == 1 ? "cuda:0 alone (cuda[index=0]:2 for two workers on it)" : fmt::format("cuda:0 to cuda:{}", gpus - 1); }

}  // namespace

DeviceName parse_device(const std::string& name) {
  const auto colon = name.find(':');
  DeviceName device{name.substr(0, colon)};
  if (device.kind == "emulated") {
    if (colon == std::string::npos || colon + 1 == name.size())
      throw Error(Code::invalid_argument, fmt::format("[device] no profile after 'emulated:'; got '{}', expected as in emulated:v100 (ddlbench list machines), or a file", name));
    device.profile = name.substr(colon + 1);
    return device;
  }
  if (colon != std::string::npos) {
    const auto* const end = name.data() + name.size();
    const auto [stopped, error] = std::from_chars(name.data() + colon + 1, end, device.index);
    if (error != std::errc{} || stopped != end || device.index < 0)
      throw Error(Code::invalid_argument, fmt::format("[device] no number after ':'; got '{}', expected as in cuda:1", name));
  }
  if (device.kind == "cpu" || device.kind == "cuda") return device;
  const std::vector<std::string> known{"cpu", "cuda", "emulated"};
  throw Error(Code::not_found, fmt::format("[device] unknown device '{}'{}; expected cpu, cuda:N or emulated:PROFILE", name, did_you_mean(device.kind, known)));
}

std::vector<DeviceKind> device_kinds() {
  return {{"cpu", "processor cores; cpu[threads=N] computes with N threads", ""},
          {"cuda", "NVIDIA GPUs; cuda:N takes the first N, cuda[index=I]:N has N workers share number I", cuda_missing()},
          {"emulated", "timed waits in place of compute, all else real; emulated:PROFILE:N by a machine's name or file, emulated:PROFILE[slow=2] takes twice as long", ""}};
}

void require_device(const std::string& name) {
  const auto device = parse_device(name);
  if (device.kind == "cpu") return;
  if (device.kind == "emulated") {
    find_machine(device.profile);
    return;
  }
  if (const auto missing = cuda_missing(); !missing.empty()) throw Error(Code::unsupported, fmt::format("unsupported: no device '{}': {}", name, missing));
  const auto gpus = known_gpus().all.size();
  if (static_cast<std::size_t>(device.index) >= gpus)
    throw Error(Code::unsupported, fmt::format("unsupported: no device '{}': this machine has {} GPU{}; expected {}", name, gpus, gpus == 1 ? "" : "s", there_are(gpus)));
}

void require_precision(const std::string& name, const std::string& precision) {
  if (precision != "tf32") return;
  const auto device = parse_device(name);
  if (device.kind == "emulated") return;  // its profile has times of it, or not
  if (device.kind != "cuda")
    throw Error(Code::unsupported, fmt::format("unsupported: tf32 is a format of NVIDIA's tensor cores (Ampere and later) and a worker is on {}; expected fp32, bf16, fp16 or "
                                               "fp64 there", name));
  require_device(name);
  if (const auto& gpu = known_gpus().all[static_cast<std::size_t>(device.index)]; !gpu.has_tf32())
    throw Error(Code::unsupported, fmt::format("unsupported: tf32 is a format of NVIDIA's tensor cores from compute capability 8.0 (Ampere) on; got {} with {}.{}, expected fp32 or "
                                               "fp16 there", gpu.product, gpu.major, gpu.minor));
}

}  // namespace ddl
