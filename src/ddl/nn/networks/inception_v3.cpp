#include "ddl/nn/builtin.h"
#include "ddl/nn/networks/common.h"

namespace ddl {
namespace {

using Window = GraphBuilder::Window;

/// Convolution, batch norm and ReLU, named as torchvision's BasicConv2d. Weights start as in its authors' code.
int conv(GraphBuilder& net, const std::string& name, int from, std::int64_t channels, Window window, float deviation = 0.1F) {
  const int x = net.conv2d(name + ".conv", from, channels, window, {.weight = normal_weights(deviation), .bias = false});
  return net.relu(name + ".relu", net.batch_norm2d(name + ".bn", x, {.epsilon = 0.001}));
}

int pooled(GraphBuilder& net, const std::string& name, int from, std::int64_t channels) {
  return conv(net, name + ".branch_pool", net.average_pool2d(name + ".avgpool", from, {3, 1, 1}), channels, {1});
}

// The blocks of figures 5 to 7, and the two that halve the resolution, in the order of the network.

int block_a(GraphBuilder& net, const std::string& name, int from, std::int64_t pool_channels) {
  const int one = conv(net, name + ".branch1x1", from, 64, {1});
  const int five = conv(net, name + ".branch5x5_2", conv(net, name + ".branch5x5_1", from, 48, {1}), 64, {5, 1, 2});
  int three = conv(net, name + ".branch3x3dbl_1", from, 64, {1});
  three = conv(net, name + ".branch3x3dbl_2", three, 96, {3, 1, 1});
  three = conv(net, name + ".branch3x3dbl_3", three, 96, {3, 1, 1});
  return net.concatenate(name, {one, five, three, pooled(net, name, from, pool_channels)});
}

int block_b(GraphBuilder& net, const std::string& name, int from) {
  const int three = conv(net, name + ".branch3x3", from, 384, {3, 2, 0});
  int twice = conv(net, name + ".branch3x3dbl_1", from, 64, {1});
  twice = conv(net, name + ".branch3x3dbl_2", twice, 96, {3, 1, 1});
  twice = conv(net, name + ".branch3x3dbl_3", twice, 96, {3, 2, 0});
  return net.concatenate(name, {three, twice, net.max_pool2d(name + ".maxpool", from, {3, 2, 0})});
}

constexpr Window kRow{{1, 7}, 1, {0, 3}}, kColumn{{7, 1}, 1, {3, 0}};

int block_c(GraphBuilder& net, const std::string& name, int from, std::int64_t narrow) {
  const int one = conv(net, name + ".branch1x1", from, 192, {1});
  int seven = conv(net, name + ".branch7x7_1", from, narrow, {1});
  seven = conv(net, name + ".branch7x7_2", seven, narrow, kRow);
  seven = conv(net, name + ".branch7x7_3", seven, 192, kColumn);
  int twice = conv(net, name + ".branch7x7dbl_1", from, narrow, {1});
  twice = conv(net, name + ".branch7x7dbl_2", twice, narrow, kColumn);
  twice = conv(net, name + ".branch7x7dbl_3", twice, narrow, kRow);
  twice = conv(net, name + ".branch7x7dbl_4", twice, narrow, kColumn);
  twice = conv(net, name + ".branch7x7dbl_5", twice, 192, kRow);
  return net.concatenate(name, {one, seven, twice, pooled(net, name, from, 192)});
}

int block_d(GraphBuilder& net, const std::string& name, int from) {
  const int three = conv(net, name + ".branch3x3_2", conv(net, name + ".branch3x3_1", from, 192, {1}), 320, {3, 2, 0});
  int seven = conv(net, name + ".branch7x7x3_1", from, 192, {1});
  seven = conv(net, name + ".branch7x7x3_2", seven, 192, kRow);
  seven = conv(net, name + ".branch7x7x3_3", seven, 192, kColumn);
  seven = conv(net, name + ".branch7x7x3_4", seven, 192, {3, 2, 0});
  return net.concatenate(name, {three, seven, net.max_pool2d(name + ".maxpool", from, {3, 2, 0})});
}

int block_e(GraphBuilder& net, const std::string& name, int from) {
  constexpr Window kShortRow{{1, 3}, 1, {0, 1}}, kShortColumn{{3, 1}, 1, {1, 0}};
  const int one = conv(net, name + ".branch1x1", from, 320, {1});
  const int three = conv(net, name + ".branch3x3_1", from, 384, {1});
  const int a = conv(net, name + ".branch3x3_2a", three, 384, kShortRow), b = conv(net, name + ".branch3x3_2b", three, 384, kShortColumn);
  const int twice = conv(net, name + ".branch3x3dbl_2", conv(net, name + ".branch3x3dbl_1", from, 448, {1}), 384, {3, 1, 1});
  const int c = conv(net, name + ".branch3x3dbl_3a", twice, 384, kShortRow), d = conv(net, name + ".branch3x3dbl_3b", twice, 384, kShortColumn);
  return net.concatenate(name, {one, a, b, c, d, pooled(net, name, from, 192)});
}

/// A classifier on the maps of the middle, in training. Maps under 17 pixels, of images under 299, are averaged to the
/// five by five that the standard ones give.
void auxiliary_head(GraphBuilder& net, int from, std::int64_t classes) {
  const auto& size = net.shape(from);
  const bool standard = size[1] >= 17 && size[2] >= 17;
  int x = standard ? net.average_pool2d("AuxLogits.avgpool", from, {5, 3, 0}) : net.adaptive_average_pool2d("AuxLogits.avgpool", from, 5);
  x = conv(net, "AuxLogits.conv1", conv(net, "AuxLogits.conv0", x, 128, {1}), 768, {5}, 0.01F);
  x = net.flatten("AuxLogits.flatten", net.global_average_pool("AuxLogits.pool", x));
  net.auxiliary(net.linear("AuxLogits.fc", x, classes, {.weight = normal_weights(0.001F)}));
}

}  // namespace

/// Inception V3 with its auxiliary head, whose loss is to count 0.3 or 0.4 of the main one.
/// Shape:   any channels, 299x299 as published, at least 75x75 -> classes.
/// Size:    27,161,264 parameters for ImageNet.
/// Source:  Szegedy et al., CVPR 2016; names as torchvision. Option dropout, 0.5 unless told.
ModelGraph inception_v3(const Spec& options, const SampleShape& images) {
  require_options(options, {"dropout"});
  const double rate = part_option(options, "dropout", 0.5);
  auto net = for_images("inceptionv3", images, 75);
  int x = conv(net, "Conv2d_1a_3x3", GraphBuilder::kInput, 32, {3, 2, 0});
  x = conv(net, "Conv2d_2a_3x3", x, 32, {3});
  x = conv(net, "Conv2d_2b_3x3", x, 64, {3, 1, 1});
  x = net.max_pool2d("maxpool1", x, {3, 2, 0});
  x = conv(net, "Conv2d_3b_1x1", x, 80, {1});
  x = conv(net, "Conv2d_4a_3x3", x, 192, {3});
  x = net.max_pool2d("maxpool2", x, {3, 2, 0});
  x = block_a(net, "Mixed_5b", x, 32);
  x = block_a(net, "Mixed_5c", x, 64);
  x = block_a(net, "Mixed_5d", x, 64);
  x = block_b(net, "Mixed_6a", x);
  x = block_c(net, "Mixed_6b", x, 128);
  x = block_c(net, "Mixed_6c", x, 160);
  x = block_c(net, "Mixed_6d", x, 160);
  x = block_c(net, "Mixed_6e", x, 192);
  auxiliary_head(net, x, images.classes);
  x = block_d(net, "Mixed_7a", x);
  x = block_e(net, "Mixed_7b", x);
  x = block_e(net, "Mixed_7c", x);
  x = net.flatten("flatten", net.dropout("dropout", net.global_average_pool("avgpool", x), rate));
  net.linear("fc", x, images.classes, {.weight = normal_weights(0.1F)});
  return std::move(net).finish();
}

}  // namespace ddl
