#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ddl/train/delayed_device_testing.h"
#include "ddl/train/device_list.h"

namespace ddl {

/// Devices that tests run on: every kind that is here (of GPUs the first), and the delayed one, which shows what a GPU would where there is
/// none. Emulated ones compute nothing (emulation/replay_test.cpp). bench/gpu.py looks for the GPU's name in what they print.
inline std::vector<std::string> test_devices() {
  std::vector<std::string> names{"delayed"};
  for (const auto& kind : device_kinds())
    if (kind.missing.empty() && kind.name != "emulated") names.push_back(kind.name == "cpu" ? "cpu" : kind.name + ":0");
  return names;
}

inline std::unique_ptr<Device> test_device(const std::string& name, const DeviceOptions& options = {}) {
  if (name == "delayed") return std::make_unique<DelayedDevice>();
  return make_device(name, options);
}

}  // namespace ddl
