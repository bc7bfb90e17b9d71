#pragma once

#include <cstdint>
#include <vector>

#include "ddl/nn/graph.h"

namespace ddl {

/// One operator of a network of images as a roofline sees it: forward, one sample. Elements, not bytes.
struct ImageOperator {
  enum class Kind : std::uint8_t {
    convolution,      ///< and linear layers
    convolution_3x3,  ///< of stride 1 with 16 channels and more: cuDNN may use Winograd's algorithm
    norm,
    elementwise,
    pool,
    copy,             ///< concatenates, upsamples, pads
  };
  Kind kind = Kind::copy;
  double flops = 0;  ///< of matrix products; a multiply-add counts 2
  double read = 0, written = 0;
  std::vector<double> parameters = {};  ///< elements of each tensor, in the order in which they are made
  double kept = -1;                     ///< that backward wants and no other operator keeps already; below 0: as its kind does (memory.h)
};

/// Where a maximum was, in elements of 4 bytes: PyTorch notes it in 8.
inline constexpr double kIndexElements = 2;

using ImageOperators = std::vector<ImageOperator>;

/// A layer of a network that a package has in sequential form, to be cut between any two.
struct SequentialLayer {
  ImageOperators operators;
  double leaves = 0;  ///< elements of a sample that go to the next layer, with what is carried past it
};

using SequentialNetwork = std::vector<SequentialLayer>;

/// One layer; what backward keeps of it is not said. Errors: unsupported for layers of other networks, naming the layer.
ImageOperator image_operator(const ModelGraph& graph, const Layer& layer);
/// What is trained of images: inputs, flattening, and what only an auxiliary head needs (packages of benchmarks leave it out) are not there.
/// Errors: unsupported for layers of other networks, naming the layer.
ImageOperators image_operators(const ModelGraph& graph);
ImageOperators operators_of(const SequentialNetwork& network);

double parameters_of(const ImageOperators& operators);
double flops_of(const ImageOperators& operators);

// Square maps of `size` pixels a side; `before`: what a stride makes of them, 0: the same.
ImageOperator convolution(double from, double to, double kernel, double size, double before = 0, bool bias = false);
/// Kernels and maps that are not square.
ImageOperator convolution(double from, double to, double kernel_pixels, double read_pixels, double written_pixels, bool winograd, bool bias);
ImageOperator norm(double elements, double channels);  ///< channels 0: learns nothing
ImageOperator elementwise(double elements, double inputs = 1);
ImageOperator pooling(double read, double written, bool maximum = true);
ImageOperator copying(double read, double written);
ImageOperator linear(double from, double to);

}  // namespace ddl
