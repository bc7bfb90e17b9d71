#pragma once

#include <string>
#include <vector>

namespace ddl {

// Of devices, what can be known without LibTorch and without touching them: a process that asks may still fork workers.

struct DeviceKind {
  std::string name;
  std::string summary;
  std::string missing;  ///< why this build or machine has none; empty if it can be used
};
std::vector<DeviceKind> device_kinds();

/// Errors: unsupported where there is no such device here (`cuda:3` of two GPUs), with the reason and what there is.
void require_device(const std::string& name);

/// Errors: unsupported where the device does not compute in it: tf32 on cpu, and on GPUs without it.
void require_precision(const std::string& device, const std::string& precision);

/// `cuda:1` -> {"cuda", 1}, `emulated:v100` -> {"emulated", 0, "v100"}. Errors: not_found for a kind that does not exist.
struct DeviceName {
  std::string kind;
  int index = 0;
  std::string profile = {};  ///< by name or file
};
DeviceName parse_device(const std::string& name);

}  // namespace ddl
