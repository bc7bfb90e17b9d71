#pragma once

#include <cstddef>

namespace ddl {

/// Bytes that this machine can still give out without swapping (MemAvailable); the largest number where the kernel does
/// not say. Asked before large allocations: the kernel would rather kill a process than refuse it a page.
std::size_t available_memory();

}  // namespace ddl
