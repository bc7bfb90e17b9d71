#include "ddl/train/computing_threads.h"

#include <omp.h>

#include <atomic>
#include <cstddef>

#include "ddl/measure/affinity.h"

namespace ddl {
namespace {

/// OpenMP keeps its threads for the next region of the thread that began this one.
template <typename UnitsOf>
int on_each(const UnitsOf& units_of) {
  std::atomic<int> failed = 0;
  // Without a num_threads clause, as LibTorch's own regions: it would have other threads made.
#pragma omp parallel
  if (const int error = set_affinity(units_of(static_cast<std::size_t>(omp_get_thread_num()))); error != 0) failed = error;
  return failed;
}

}  // namespace

int bind_computing_threads(const std::vector<int>& units) {
  return on_each([&](std::size_t thread) { return std::vector{units[thread % units.size()]}; });
}

int release_computing_threads(const std::vector<int>& units) {
  return on_each([&](std::size_t) { return units; });
}

}  // namespace ddl
