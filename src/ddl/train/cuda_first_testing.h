#pragma once

#include <cstdlib>

#include <gtest/gtest.h>

#include "ddl/train/devices/cuda_library.h"

namespace ddl::testing {

/// Once a process has run backward LibTorch takes what devices there were for all that there will be: CUDA must be loaded by then, in every
/// program of tests that has some on each device (device_testing.h). Not where a process is to show what it is like without.
class CudaFirst final : public ::testing::Environment {
 public:
  void SetUp() override {
    if (std::getenv("DDL_TEST_BEFORE_CUDA") != nullptr) return;
    if (!cuda_library().empty()) load_cuda_library();
  }
};
inline const auto* const kCudaFirst = ::testing::AddGlobalTestEnvironment(new CudaFirst);

}  // namespace ddl::testing
