#pragma once

#include <ATen/Parallel.h>

#include "ddl/nn/multiplier.h"
#include "ddl/train/allocator.h"
#include "ddl/train/job_network.h"

namespace ddl {

// How a process begins that measures by itself. Threads: the one that computes, before it does.

/// With so many threads, and the allocator of workers.
inline void begin_alone(int threads) {
  at::set_num_threads(threads);
  install_allocator(true);
}

/// As the job's first worker computes: with as many threads, the products that are fastest with so many, and its allocator.
inline void begin_alone(const Job& job) {
  at::set_num_threads(job.workers.front().threads);
  if (chooses_multipliers(job)) multipliers();
  install_allocator(kernels(job) == Kernels::fast);
}

}  // namespace ddl
