#pragma once

#include <vector>

namespace ddl {

/// Which processing units (hardware threads, by the kernel's numbers) the calling thread may use, in ascending order. Errors: io.
std::vector<int> affinity();
/// Lets the calling thread, and those that it starts from now on, use these alone. Returns 0 or the system's error.
int set_affinity(const std::vector<int>& units) noexcept;

}  // namespace ddl
