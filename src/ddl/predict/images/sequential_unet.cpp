#include <vector>

#include "ddl/predict/images/networks.h"

namespace ddl {
namespace {

class UnetLayers {
 public:
  void add(ImageOperators operators, double leaves) { net_.push_back({std::move(operators), leaves + carried()}); }

  /// Five times convolution, dropout, instance norm without parameters, and ReLU.
  void cell(double from, double middle, double to, double side) {
    constexpr int kConvolutions = 5;
    for (int i = 0; i < kConvolutions; ++i) {
      const double a = i == 0 ? from : middle, b = i == kConvolutions - 1 ? to : middle, elements = b * side * side;
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

  SequentialNetwork net_;
  std::vector<double> skips_;
};

}  // namespace

/// Source: Ronneberger, Fischer & Brox, MICCAI 2015; torchgpipe 0.0.7, benchmarks/models/unet. Networks deeper than `size` can be halved have maps of fractions of a pixel here.
SequentialNetwork sequential_unet(int depth, int channels, double size) {
  UnetLayers net;
  double side = size, wide = channels;
  for (int i = 0; i < depth; ++i, wide *= 2) {
    net.cell(i == 0 ? 3 : wide / 2, wide, wide, side);
    net.keep(wide * side * side);
    side /= 2;
    net.add({pooling(4 * wide * side * side, wide * side * side)}, wide * side * side);
  }
  net.cell(wide / 2, wide, wide / 2, side);
  for (int i = 0; i < depth; ++i) {
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
