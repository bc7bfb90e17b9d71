#include "ddl/nn/networks/resnet.h"

#include "ddl/core/error.h"
#include "ddl/nn/builtin.h"
#include "ddl/nn/networks/common.h"

namespace ddl {
namespace {

const GraphBuilder::Convolution kConv{.weight = he_weights, .bias = false};

/// Adds the short cut to what the block computed.
int join(GraphBuilder& net, const std::string& name, int x, int from, std::int64_t stride) {
  const auto channels = net.shape(x)[0];
  int shortcut = from;
  if (stride != 1 || net.shape(from)[0] != channels) {
    shortcut = net.conv2d(name + ".downsample.0", from, channels, {1, stride, 0}, kConv);
    shortcut = net.batch_norm2d(name + ".downsample.1", shortcut);
  }
  return net.relu(name + ".relu", net.add(name + ".add", x, shortcut));
}

int basic_block(GraphBuilder& net, const std::string& name, int from, std::int64_t channels, std::int64_t stride, float last) {
  int x = net.conv2d(name + ".conv1", from, channels, {3, stride, 1}, kConv);
  x = net.relu(name + ".relu1", net.batch_norm2d(name + ".bn1", x));
  x = net.conv2d(name + ".conv2", x, channels, {3, 1, 1}, kConv);
  return join(net, name, net.batch_norm2d(name + ".bn2", x, {.weight = last}), from, stride);
}

int bottleneck(GraphBuilder& net, const std::string& name, int from, std::int64_t channels, std::int64_t stride, float last) {
  int x = net.conv2d(name + ".conv1", from, channels, {1, 1, 0}, kConv);
  x = net.relu(name + ".relu1", net.batch_norm2d(name + ".bn1", x));
  x = net.conv2d(name + ".conv2", x, channels, {3, stride, 1}, kConv);
  x = net.relu(name + ".relu2", net.batch_norm2d(name + ".bn2", x));
  x = net.conv2d(name + ".conv3", x, 4 * channels, {1, 1, 0}, kConv);
  return join(net, name, net.batch_norm2d(name + ".bn3", x, {.weight = last}), from, stride);
}

}  // namespace

std::array<int, 4> resnet_blocks(int depth) {
  switch (depth) {
    case 18: return {2, 2, 2, 2};
    case 34:
    case 50: return {3, 4, 6, 3};
    case 101: return {3, 4, 23, 3};
    case 152: return {3, 8, 36, 3};
    default: invariant(false, "a ResNet has 18, 34, 50, 101 or 152 layers"); return {};
  }
}

int resnet_trunk(GraphBuilder& net, int images, const ResNetTrunk& how) {
  const auto named = [&](const std::string& name) { return how.prefix + name; };
  const auto first = how.small_images ? GraphBuilder::Window{3, 1, 1} : GraphBuilder::Window{7, 2, 3};
  int x = net.conv2d(named("conv1"), images, 64, first, kConv);
  x = net.relu(named("relu"), net.batch_norm2d(named("bn1"), x));
  if (!how.small_images) x = net.max_pool2d(named("maxpool"), x, {3, 2, 1});
  const auto blocks = resnet_blocks(how.depth);
  const auto block_of = how.depth < 50 ? basic_block : bottleneck;
  for (std::size_t stage = 0; stage < blocks.size(); ++stage)
    for (int block = 0; block < blocks[stage]; ++block)
      x = block_of(net, named(fmt::format("layer{}.{}", stage + 1, block)), x, std::int64_t{64} << stage, stage > 0 && block == 0 ? 2 : 1,
                   how.zero_last ? 0.0F : 1.0F);
  return net.flatten(named("flatten"), net.adaptive_average_pool2d(named("avgpool"), x, how.grid));
}

/// ResNet v1. Where the resolution is halved inside a bottleneck, its 3x3 convolution has the stride (torchvision's
/// and NVIDIA's "v1.5"). Images under 64 pixels get a stem of one 3x3 convolution of stride 1 without pooling, as the
/// paper's own CIFAR networks begin; the four stages are those of the ImageNet network.
/// Shape:   any channels, height and width of at least 8 -> classes.
/// Size:    11,689,512 / 21,797,672 / 25,557,032 / 44,549,160 / 60,192,808 parameters for ImageNet.
/// Source:  He, Zhang, Ren & Sun, CVPR 2016, table 1 and section 4.2; names and start as torchvision.
ModelGraph resnet(int depth, const Spec& options, const SampleShape& images) {
  require_options(options, {});
  auto net = for_images(fmt::format("resnet{}", depth), images, 8);
  const int x = resnet_trunk(net, GraphBuilder::kInput, {depth, small_images(images)});
  net.linear("fc", x, images.classes);
  return std::move(net).finish();
}

}  // namespace ddl
