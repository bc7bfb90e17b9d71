#pragma once

#include <string>

#include "ddl/core/json.h"
#include "ddl/predict/datasheet/gpu.h"
#include "ddl/predict/images/operators.h"

namespace ddl {

/// What kernels of convolutional networks reach of a device: "images" of a `ddlbench.kernels/1`.
struct ImageKernels {
  double convolution = 0, convolution_3x3 = 0;  ///< of peak; above 1 where Winograd's algorithm multiplies less
  double memory = 0;                            ///< of its bandwidth
  double update_bytes = 0;                      ///< moved for each parameter
  double full_convolution = 0;                  ///< of peak, any convolution in fp32 where it is not Winograd's that computes it; 0: as the two above
};
/// Of that GPU: "images.generations" says how much more or less of a device's peak and bandwidth kernels reach by its compute capability than where the others were fitted, "images.full_precision" what convolutions in fp32 do from some capability on. Errors: not_found, naming the term.
ImageKernels image_kernels(const Json& kernels, const Gpu& gpu);

/// Seconds of one sample without launches; launches and parameters.
struct RooflineSums {
  double forward = 0, backward = 0;
  double operators = 0;
  double parameters = 0;
};

/// One device by its datasheet and what kernels reach of it.
class ImageRoofline {
 public:
  /// `launch`: seconds between operators of a forward pass; backward has twice as many kernels. Peaks and bytes are those of the precision.
  ImageRoofline(Gpu gpu, const ImageKernels& kernels, double launch, const std::string& precision);

  /// Products: max(FLOPs / (peak x share), bytes / memory), twice as long backward; others by the bytes they move: a norm reads its input twice forward, and that and the gradient twice each backward.
  double forward(const ImageOperator& each) const;
  double backward(const ImageOperator& each) const;
  RooflineSums sums(const ImageOperators& operators) const;
  /// SGD with momentum, in 32 bits.
  double update(double parameters) const;
  /// Forward, backward and update of a batch on one device: launches + batch x time of a sample + update.
  double step(const ImageOperators& operators, double batch) const;

  double launch() const { return launch_; }
  const Gpu& gpu() const { return gpu_; }

 private:
  double of_memory(double elements) const;

  Gpu gpu_;
  ImageKernels kernels_;
  double launch_, bytes_;
};

}  // namespace ddl
