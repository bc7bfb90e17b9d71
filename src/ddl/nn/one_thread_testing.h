#pragma once

#include <ATen/Parallel.h>

namespace ddl {

/// One thread, which is what a worker has, as long as it lives.
struct OneThread {
  int before = at::get_num_threads();
  OneThread() { at::set_num_threads(1); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;
  ~OneThread() { at::set_num_threads(before); }
};

}  // namespace ddl
