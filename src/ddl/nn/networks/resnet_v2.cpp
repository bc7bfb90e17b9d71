#include "ddl/nn/builtin.h"
#include "ddl/nn/networks/common.h"
#include "ddl/nn/networks/resnet.h"

namespace ddl {
namespace {

const GraphBuilder::Convolution kConv{.weight = he_weights, .bias = false};

int bottleneck(GraphBuilder& net, const std::string& name, int from, std::int64_t channels, std::int64_t stride) {
  const int start = net.relu(name + ".relu1", net.batch_norm2d(name + ".bn1", from));
  int x = net.conv2d(name + ".conv1", start, channels, {1, 1, 0}, kConv);
  x = net.relu(name + ".relu2", net.batch_norm2d(name + ".bn2", x));
  x = net.conv2d(name + ".conv2", x, channels, {3, stride, 1}, kConv);
  x = net.relu(name + ".relu3", net.batch_norm2d(name + ".bn3", x));
  x = net.conv2d(name + ".conv3", x, 4 * channels, {1, 1, 0}, kConv);
  int shortcut = from;
  if (stride != 1 || net.shape(from)[0] != 4 * channels) shortcut = net.conv2d(name + ".downsample", start, 4 * channels, {1, stride, 0}, kConv);
  return net.add(name + ".add", x, shortcut);
}

}  // namespace

/// ResNet v2: batch norm and ReLU come before each convolution, so that short cuts pass values on unchanged; a last pair
/// before pooling. Strides and stems as resnet().
/// Shape:   any channels, height and width of at least 8 -> classes.
/// Size:    25,549,352 / 44,541,480 parameters for ImageNet: those that Keras prints for its ResNet50V2 and ResNet101V2
///          without the biases that it gives some convolutions.
/// Source:  He, Zhang, Ren & Sun, Identity Mappings in Deep Residual Networks, ECCV 2016.
ModelGraph resnet_v2(int depth, const Spec& options, const SampleShape& images) {
  require_options(options, {});
  auto net = for_images(fmt::format("resnet{}v2", depth), images, 8);
  const bool small = small_images(images);
  int x = net.conv2d("conv1", GraphBuilder::kInput, 64, small ? GraphBuilder::Window{3, 1, 1} : GraphBuilder::Window{7, 2, 3}, kConv);
  if (!small) x = net.max_pool2d("maxpool", x, {3, 2, 1});
  const auto blocks = resnet_blocks(depth);
  for (std::size_t stage = 0; stage < blocks.size(); ++stage)
    for (int block = 0; block < blocks[stage]; ++block)
      x = bottleneck(net, fmt::format("layer{}.{}", stage + 1, block), x, std::int64_t{64} << stage, stage > 0 && block == 0 ? 2 : 1);
  x = net.relu("relu", net.batch_norm2d("bn", x));
  x = net.flatten("flatten", net.global_average_pool("avgpool", x));
  net.linear("fc", x, images.classes);
  return std::move(net).finish();
}

}  // namespace ddl
