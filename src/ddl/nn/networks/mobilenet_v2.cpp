#include "ddl/nn/builtin.h"
#include "ddl/nn/networks/common.h"

namespace ddl {
namespace {

int conv_norm(GraphBuilder& net, const std::string& conv, const std::string& norm, int from, std::int64_t channels, GraphBuilder::Window window,
              std::int64_t groups = 1) {
  return net.batch_norm2d(norm, net.conv2d(conv, from, channels, window, {.weight = he_weights, .bias = false, .groups = groups}));
}

int conv_norm_relu(GraphBuilder& net, const std::string& name, int from, std::int64_t channels, GraphBuilder::Window window, std::int64_t groups = 1) {
  return net.relu6(name + ".2", conv_norm(net, name + ".0", name + ".1", from, channels, window, groups));
}

/// Widens, filters each channel by itself, narrows without a non-linearity; a short cut joins the narrow ends.
int inverted_residual(GraphBuilder& net, const std::string& name, int from, std::int64_t channels, std::int64_t stride, std::int64_t widen) {
  const auto before = net.shape(from)[0], wide = before * widen;
  int x = from, part = 0;
  const auto next = [&] { return fmt::format("{}.conv.{}", name, part++); };
  if (widen != 1) x = conv_norm_relu(net, next(), x, wide, {1, 1, 0});
  x = conv_norm_relu(net, next(), x, wide, {3, stride, 1}, wide);
  const auto conv = next(), norm = next();
  x = conv_norm(net, conv, norm, x, channels, {1, 1, 0});
  return stride == 1 && before == channels ? net.add(name + ".add", x, from) : x;
}

}  // namespace

/// MobileNetV2, width 1. Images under 64 pixels keep their resolution through the stem and the second stage, where larger
/// ones are halved.
/// Shape:   any channels, at least 8x8 -> classes.
/// Size:    3,504,872 parameters for ImageNet.
/// Source:  Sandler et al., CVPR 2018, table 2; names and start as torchvision. Option dropout, 0.2 unless told.
ModelGraph mobilenet_v2(const Spec& options, const SampleShape& images) {
  require_options(options, {"dropout"});
  const double rate = part_option(options, "dropout", 0.2);
  auto net = for_images("mobilenetv2", images, 8);
  const bool small = small_images(images);
  struct Stage {
    std::int64_t widen, channels, blocks, stride;
  };
  const Stage stages[] = {{1, 16, 1, 1}, {6, 24, 2, small ? 1 : 2}, {6, 32, 3, 2}, {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  int x = conv_norm_relu(net, "features.0", GraphBuilder::kInput, 32, {3, small ? 1 : 2, 1});
  int number = 1;
  for (const auto& stage : stages)
    for (std::int64_t block = 0; block < stage.blocks; ++block)
      x = inverted_residual(net, fmt::format("features.{}", number++), x, stage.channels, block == 0 ? stage.stride : 1, stage.widen);
  x = conv_norm_relu(net, fmt::format("features.{}", number), x, 1280, {1, 1, 0});
  x = net.flatten("flatten", net.global_average_pool("avgpool", x));
  net.linear("classifier.1", net.dropout("classifier.0", x, rate), images.classes, {.weight = normal_weights(0.01F), .zero_bias = true});
  return std::move(net).finish();
}

}  // namespace ddl
