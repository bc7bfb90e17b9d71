#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ddl/core/json.h"
#include "ddl/predict/datasheet/collective_library.h"

namespace ddl {

/// A GPU by its datasheet, and how it is joined to others. SI units.
struct Gpu {
  std::string name;
  double peak = 0;             ///< FLOP/s, of the precision asked for, dense
  double a100_peak = 312e12;   ///< what an A100's tensor cores have of that precision
  double value_bytes = 2;      ///< of what products read and write
  double bandwidth = 0;        ///< of its memory, bytes/s
  double memory = 0;           ///< bytes
  double multiprocessors = 0;
  double watts = 0;
  double bus = 0;              ///< of a node: what NCCL's bus bandwidth is limited to, bytes/s
  double network = 0;          ///< bytes/s each way that one device has of its node's wires
  int per_node = 8;
  int wired = 8;               ///< devices that its node's wires were counted for: of a node that is filled with fewer each wire carries as much
  std::string link, wires;     ///< words of the profile for what joins devices of a node, and nodes
  double compute_capability = 0;
  bool nvlink() const { return link.starts_with("nvlink"); }
};

/// Bytes of a value that layers compute with, in a precision as jobs name it.
double value_bytes(const std::string& precision);

/// Errors: not_found for a profile without one of these terms; unsupported for a precision that it has no peak of.
Gpu gpu_of(const Json& machine, const std::string& precision);

/// What kernels reach of that: `ddlbench.kernels/1`. Formulae and where the numbers come from: docs/model.md.
struct GpuKernels {
  std::vector<std::pair<double, double>> tiles;
  double gemm_efficiency = 0, tile_half = 0, wave = 0;      ///< of peak; elements; s
  double batched_gemm_efficiency = 0, gemm_bandwidth = 0;   ///< relative to gemm_efficiency; of the memory's
  double pass_bandwidth = 0, flash_efficiency = 0, update_bandwidth = 0;
  double flops_per_joule_gain = 0, launch = 0;
  double host_norm = 0;              ///< of two things that go on at once, a GPU's work and its host's launches: the longer decides, smoothly by this norm
  double slowdown_per_doubling = 0;  ///< of a step, each time that nodes double: the slowest of more
  CollectiveLibrary library;         ///< which of them carries collectives

  /// Sustained clock over that of the datasheet, by watts for each FLOP/s beside an A100's of the same precision: newer generations draw what they may.
  double derate(const Gpu& gpu) const;
  /// Seconds of `batch` products of [rows, inner] and [inner, columns]: the fastest of some tiles, whole waves of them over the multiprocessors, and a kernel's launch.
  double gemm(const Gpu& gpu, double rows, double columns, double inner, double batch, double kernel, double efficiency = 1) const;
  /// Reading and writing so many bytes.
  double pass(const Gpu& gpu, double bytes) const;
  /// The library's, within a node; 0 of one rank.
  double all_reduce_in_node(const Gpu& gpu, double bytes, double ranks) const;
  /// Over nodes, `on_node` of its ranks on each, or on that of `nodes` which has fewest.
  double all_reduce_across(const Gpu& gpu, double bytes, double ranks, double on_node, double nodes = 0) const;
};

GpuKernels gpu_kernels(const Json& kernels, CollectiveLibrary library);

}  // namespace ddl
