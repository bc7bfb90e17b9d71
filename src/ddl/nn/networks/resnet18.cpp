#include "ddl/core/error.h"
#include "ddl/nn/builtin.h"

namespace ddl {
namespace {

constexpr GraphBuilder::ConvOptions kConv{false, Initialiser::normal_fan_out};

int basic_block(GraphBuilder& net, const std::string& name, int from, std::int64_t channels, std::int64_t stride) {
  int x = net.conv2d(name + ".conv1", from, channels, {3, stride, 1}, kConv);
  x = net.relu(name + ".relu1", net.batch_norm2d(name + ".bn1", x));
  x = net.conv2d(name + ".conv2", x, channels, {3, 1, 1}, kConv);
  x = net.batch_norm2d(name + ".bn2", x);
  int shortcut = from;
  if (stride != 1 || net.shape(from)[0] != channels) {
    shortcut = net.conv2d(name + ".downsample.0", from, channels, {1, stride, 0}, kConv);
    shortcut = net.batch_norm2d(name + ".downsample.1", shortcut);
  }
  return net.relu(name + ".relu2", net.add(name + ".add", x, shortcut));
}

}  // namespace

/// ResNet-18 for images of 28x28 to 64x64: the stem is one 3x3 convolution of stride 1 without pooling, as the paper's
/// own CIFAR networks begin; the four stages are those of the ImageNet network.
/// Shape:   any channels, height and width of at least 8 -> classes.
/// Size:    11,173,962 parameters for 3x32x32 and ten classes.
/// Source:  He, Zhang, Ren & Sun, CVPR 2016, table 1 and section 4.2; names as torchvision's state dict.
ModelGraph resnet18(const Spec& options, const SampleShape& images) {
  require_options(options, {});
  if (images.height < 8 || images.width < 8 || images.height > 64 || images.width > 64)
    throw Error(Code::invalid_argument, fmt::format("[resnet18] takes images of 8x8 to 64x64 (its stem for larger ones "
                                                    "is not there yet); got {}x{}", images.height, images.width));
  GraphBuilder net("resnet18", {images.channels, images.height, images.width});
  int x = net.conv2d("conv1", GraphBuilder::kInput, 64, {3, 1, 1}, kConv);
  x = net.relu("relu", net.batch_norm2d("bn1", x));
  for (int stage = 0; stage < 4; ++stage)
    for (int block = 0; block < 2; ++block)
      x = basic_block(net, fmt::format("layer{}.{}", stage + 1, block), x, std::int64_t{64} << stage,
                      stage > 0 && block == 0 ? 2 : 1);
  x = net.flatten("flatten", net.global_average_pool("avgpool", x));
  net.linear("fc", x, images.classes);
  return std::move(net).finish();
}

}  // namespace ddl
