#pragma once

#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

namespace ddl {

/// Processing units that this process has to itself among all that ask in this way, whoever runs them: a lock (flock) on each one's folder in sysfs. It goes with the process, however
/// that ends, and leaves no file. Who does not ask is not kept from anything.
/// Threads: one.
class CoreClaims {
 public:
  CoreClaims() = default;
  explicit CoreClaims(std::filesystem::path folder) : folder_(std::move(folder)) {}
  ~CoreClaims();
  CoreClaims(const CoreClaims&) = delete;
  CoreClaims& operator=(const CoreClaims&) = delete;

  /// All of them, or none: then it returns the first that another has.
  /// Errors: unsupported where a unit has no folder that can be locked.
  std::optional<int> claim(const std::vector<int>& units);

 private:
  void leave();

  std::filesystem::path folder_ = "/sys/devices/system/cpu";
  std::vector<int> held_;  ///< open files
};

}  // namespace ddl
