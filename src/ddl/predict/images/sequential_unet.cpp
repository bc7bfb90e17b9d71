#include <vector>

#include "ddl/predict/images/networks.h"

namespace ddl {
namespace {

class UnetLayers {
 public:
  explicit UnetLayers(int convolutions) : convolutions_(convolutions) {}

  void add(ImageOperators operators, double leaves) { net_.push_back({std::move(operators), leaves + carried()}); }

  /// So many times convolution, dropout, instance norm without parameters, and ReLU.
  void cell(double from, double middle, double to, double side) {
    for (int i = 0; i < convolutions_; ++i) {
      const double a = i == 0 ? from : middle, b = i == convolutions_ - 1 ? to : middle, elements = b * side * side;
      add({convolution(a, b, 3, side)}, elements);
      add({elementwise(elements)}, elements);
      add({norm(elements, 0)}, elements);
      add({elementwise(elements)}, elements);
    }
  }

  /// A value that the layer of the same resolution on the way up reads: carried past all between.
  void keep(double elements) {
    skips_.push_back(elements);
    add({}, elements);
  }
  void drop() { skips_.pop_back(); }

  SequentialNetwork take() { return std::move(net_); }

 private:
  double carried() const {
    double sum = 0;
    for (const double each : skips_) sum += each;
    return sum;
  }

  int convolutions_;
  SequentialNetwork net_ = {};
  std::vector<double> skips_ = {};
};

}  // namespace

/// Source: Ronneberger, Fischer & Brox, MICCAI 2015; torchgpipe 0.0.7, benchmarks/models/unet, whose benchmarks halve five times.
SequentialNetwork sequential_unet(int convolutions, int channels, double size) {
  constexpr int kDepth = 5;
  UnetLayers net(convolutions);
  double side = size, wide = channels;
  for (int i = 0; i < kDepth; ++i, wide *= 2) {
    net.cell(i == 0 ? 3 : wide / 2, wide, wide, side);
    net.keep(wide * side * side);
    side /= 2;
    net.add({pooling(4 * wide * side * side, wide * side * side)}, wide * side * side);
  }
  net.cell(wide / 2, wide, wide / 2, side);
  for (int i = 0; i < kDepth; ++i) {
    wide /= 2;  // channels that come from below, and as many that were kept
    side *= 2;
    const double elements = wide * side * side;
    net.add({copying(elements / 4, elements)}, elements);
    net.drop();
    net.add({copying(2 * elements, 2 * elements)}, 2 * elements);
    net.cell(2 * wide, wide / 2, wide / 2, side);
  }
  net.add({convolution(wide / 2, 1, 1, side)}, side * side);
  return net.take();
}

}  // namespace ddl
