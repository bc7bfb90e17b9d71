#include "ddl/predict/images/roofline.h"

#include <gtest/gtest.h>

#include "ddl/predict/datasheet/library.h"

namespace ddl {
namespace {

constexpr double kPeak = 50e12;

/// Seconds at the peak over those that it takes.
double share(double capability, const std::string& precision, ImageOperator::Kind kind) {
  Gpu gpu;
  gpu.peak = kPeak;
  gpu.bandwidth = 1e30;
  gpu.compute_capability = capability;
  const ImageRoofline device(gpu, image_kernels(find_stack("nvidia"), gpu), 0, precision);
  ImageOperator one{};
  one.kind = kind;
  one.flops = 1e9;
  return 1e9 / kPeak / device.forward(one);
}

TEST(ImageRoofline, WinogradIsForGpusBeforeTensorCoresTookOver) {
  using Kind = ImageOperator::Kind;
  EXPECT_NEAR(share(6.1, "fp32", Kind::convolution_3x3), 1.425, 1e-9);
  EXPECT_NEAR(share(6.1, "fp32", Kind::convolution), 0.578, 1e-9);
  EXPECT_NEAR(share(7.0, "fp32", Kind::convolution_3x3), 1.25 * 1.425, 1e-9);
  EXPECT_NEAR(share(7.0, "fp16", Kind::convolution_3x3), 1.25 * 0.578, 1e-9);
  for (const auto kind : {Kind::convolution, Kind::convolution_3x3}) {
    EXPECT_NEAR(share(9.0, "fp32", kind), 0.485, 1e-9);
    EXPECT_NEAR(share(9.0, "tf32", kind), 1.25 * 0.578, 1e-9);
    EXPECT_NEAR(share(9.0, "bf16", kind), 1.25 * 0.578, 1e-9);
  }
}

}  // namespace
}  // namespace ddl
