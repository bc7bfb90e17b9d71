#include "ddl/predict/datasheet/gpu.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/predict/datasheet/library.h"

namespace ddl {

double value_bytes(const std::string& precision) { return precision == "fp16" || precision == "bf16" ? 2 : precision == "fp64" ? 8 : 4; }

Gpu gpu_of(const Json& machine, const std::string& precision) {
  Gpu gpu;
  gpu.name = machine.value("name", "?");
  const auto path = "device.peak_flops." + precision;
  if (term_or(machine, path, 0) <= 0) {
    std::vector<std::string> known;
    if (machine.contains("device") && machine["device"].contains("peak_flops"))
      for (const auto& [name, value] : machine["device"]["peak_flops"].items()) known.push_back(name);
    throw Error(Code::unsupported, fmt::format("[machine] unsupported: {} has no peak of precision {}; expected one of: {}; or of a processor a profile of its own, by ddlbench probe compute --precision {}", gpu.name, precision, join(known, " "), precision));
  }
  gpu.peak = term(machine, path);
  gpu.a100_peak = precision == "tf32" ? 156e12 : 312e12;
  gpu.bandwidth = term(machine, "device.memory_bandwidth");
  gpu.memory = term(machine, "device.memory_bytes");
  gpu.multiprocessors = term(machine, "device.multiprocessors");
  gpu.watts = term_or(machine, "device.watts", 0);
  gpu.bus = term(machine, "node.bus_bandwidth");
  gpu.network = term(machine, "node.network_bandwidth_per_device");
  gpu.per_node = static_cast<int>(term(machine, "node.devices"));
  gpu.wired = static_cast<int>(term_or(machine, "node.wired_devices", gpu.per_node));
  gpu.link = machine["node"].value("link", "");
  gpu.wires = machine["node"].value("network", "");
  gpu.compute_capability = term_or(machine, "device.compute_capability", 0);
  return gpu;
}

GpuKernels gpu_kernels(const Json& kernels, CollectiveLibrary library) {
  GpuKernels out;
  for (const auto& tile : kernels.at("tiles")) out.tiles.emplace_back(tile.at(0).get<double>(), tile.at(1).get<double>());
  out.gemm_efficiency = term(kernels, "gemm_efficiency");
  out.tile_half = term(kernels, "tile_half");
  out.wave = term(kernels, "wave_us") * 1e-6;
  out.batched_gemm_efficiency = term(kernels, "batched_gemm_efficiency");
  out.gemm_bandwidth = term(kernels, "gemm_bandwidth");
  out.pass_bandwidth = term(kernels, "pass_bandwidth");
  out.flash_efficiency = term(kernels, "flash_efficiency");
  out.update_bandwidth = term(kernels, "update_bandwidth");
  out.flops_per_joule_gain = term(kernels, "flops_per_joule_gain");
  out.slowdown_per_doubling = term(kernels, "slowdown_per_doubling_of_nodes");
  out.launch = term(kernels, "launch_us") * 1e-6;
  out.host_norm = term(kernels, "host_norm");
  out.library = std::move(library);
  return out;
}

double GpuKernels::derate(const Gpu& gpu) const {
  constexpr double kWatts = 400;  // of the A100 whose kernels these numbers were fitted to
  if (gpu.peak <= 1.01 * gpu.a100_peak || gpu.watts <= 0) return 1;
  return std::min(1.0, (gpu.watts / gpu.peak) / (kWatts / gpu.a100_peak) * flops_per_joule_gain);
}

double GpuKernels::gemm(const Gpu& gpu, double rows, double columns, double inner, double batch, double kernel, double efficiency) const {
  constexpr double kLargestSide = 2.0 * 256 * 128 / (256 + 128);
  double best = std::numeric_limits<double>::infinity();
  for (const auto& [tall, wide] : tiles) {
    const double waves = std::ceil(std::ceil(rows / tall) * std::ceil(columns / wide) * batch / gpu.multiprocessors);
    const double side = 2 * tall * wide / (tall + wide);
    const double reached = gemm_efficiency * efficiency * derate(gpu) * (1 + tile_half / kLargestSide) / (1 + tile_half / side);
    best = std::min(best, waves * (2 * tall * wide * inner / (gpu.peak / gpu.multiprocessors * reached) + wave));
  }
  const double bytes = gpu.value_bytes * batch * (rows * inner + inner * columns + rows * columns);
  return std::max(best, bytes / (gpu.bandwidth * gemm_bandwidth)) + kernel;
}

double GpuKernels::pass(const Gpu& gpu, double bytes) const { return bytes / (gpu.bandwidth * pass_bandwidth); }

double GpuKernels::all_reduce_in_node(const Gpu& gpu, double bytes, double ranks) const { return library.all_reduce(gpu, bytes, ranks, ranks); }

double GpuKernels::all_reduce_across(const Gpu& gpu, double bytes, double ranks, double on_node, double nodes) const { return library.all_reduce(gpu, bytes, ranks, on_node, nodes); }

}  // namespace ddl
