#include "ddl/nn/builtin.h"
#include "ddl/nn/networks/common.h"

namespace ddl {
namespace {

/// Channels of each 3x3 convolution; 0 is a pooling. Configurations A, E and D of table 1.
std::vector<std::int64_t> plan_of(int depth) {
  if (depth == 11) return {64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0};
  if (depth == 19) return {64, 64, 0, 128, 128, 0, 256, 256, 256, 256, 0, 512, 512, 512, 512, 0, 512, 512, 512, 512, 0};
  return {64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0};
}

}  // namespace

/// VGG without batch norm, as published. Images under 64 pixels end in maps of one pixel: their two hidden layers have 512
/// units rather than 4,096, and a pooling that would leave nothing (the last of 28x28) is left out.
/// Shape:   any channels, at least 16x16 -> classes.
/// Size:    132,863,336 / 138,357,544 parameters for ImageNet (11 and 16 layers).
/// Source:  Simonyan & Zisserman, ICLR 2015; names and start as torchvision. Option dropout, 0.5 unless told.
ModelGraph vgg(int depth, const Spec& options, const SampleShape& images) {
  require_options(options, {"dropout"});
  const double rate = part_option(options, "dropout", 0.5);
  auto net = for_images(fmt::format("vgg{}", depth), images, 16);
  int x = GraphBuilder::kInput, number = 0;
  for (const auto channels : plan_of(depth)) {
    if (channels == 0) {
      if (net.shape(x)[1] > 1 && net.shape(x)[2] > 1) x = net.max_pool2d(fmt::format("features.{}", number), x, {2, 2, 0});
      ++number;
      continue;
    }
    x = net.conv2d(fmt::format("features.{}", number), x, channels, {3, 1, 1}, {.weight = he_weights, .zero_bias = true});
    x = net.relu(fmt::format("features.{}", number + 1), x);
    number += 2;
  }
  const bool small = small_images(images);
  const std::int64_t hidden = small ? 512 : 4096;
  const GraphBuilder::Linear start{.weight = normal_weights(0.01F), .zero_bias = true};
  x = net.flatten("flatten", net.adaptive_average_pool2d("avgpool", x, small ? 1 : 7));
  x = net.dropout("classifier.2", net.relu("classifier.1", net.linear("classifier.0", x, hidden, start)), rate);
  x = net.dropout("classifier.5", net.relu("classifier.4", net.linear("classifier.3", x, hidden, start)), rate);
  net.linear("classifier.6", x, images.classes, start);
  return std::move(net).finish();
}

}  // namespace ddl
