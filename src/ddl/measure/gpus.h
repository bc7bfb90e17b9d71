#pragma once

#include <string>
#include <vector>

#include "ddl/core/units.h"

namespace ddl {

/// One GPU as NVIDIA's driver describes it.
struct InstalledGpu {
  std::string product;  ///< "NVIDIA H100 80GB HBM3"
  Bytes memory;
  int major = 0, minor = 0;  ///< of its compute capability

  /// Tensor cores that multiply fp32 in TF32 came with compute capability 8.0 (Ampere).
  bool has_tf32() const { return major >= 8; }
};

struct Gpus {
  std::vector<InstalledGpu> all = {};  ///< in the driver's order, those of CUDA_VISIBLE_DEVICES alone where it is set
  std::string driver = {};    ///< the CUDA version that the driver supports: "13.0"; empty without a driver
  std::string missing = {};   ///< why there is none; empty where there is one
};

/// The GPUs of this machine. A child process asks the driver, through its library: a process that has begun to use CUDA
/// can fork no workers that use it, and the coordinator must fork. Takes at most `patience`; a driver that does not answer by then is
/// missing. Nothing of this machine's fault is an error.
/// Source:  CUDA Driver API: cuInit, cuDeviceGetCount, …; the CUDA C++ Programming Guide on fork().
Gpus find_gpus(const std::string& library = "libcuda.so.1", Seconds patience = {20});

/// find_gpus(), asked once a process; forks inherit the answer.
const Gpus& known_gpus();

}  // namespace ddl
