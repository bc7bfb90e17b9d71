#pragma once

#include "ddl/nn/builtin.h"
#include "ddl/nn/graph_builder.h"

// The families of networks at a few channels a layer, each with what its family asks of a strategy. The published ones take seconds a step.
namespace ddl::testing {

inline int conv_norm(GraphBuilder& net, const std::string& name, int from, std::int64_t channels, GraphBuilder::Window window, std::int64_t groups = 1) {
  return net.batch_norm2d(name + ".bn", net.conv2d(name, from, channels, window, {.bias = false, .groups = groups}));
}

inline GraphBuilder for_scenes(const char* name, const SampleShape& images) { return GraphBuilder(name, {images.channels, images.height, images.width}); }

inline ModelGraph classify(GraphBuilder net, int maps, std::int64_t classes) {
  net.linear("fc", net.flatten("flatten", net.global_average_pool("avgpool", maps)), classes);
  return std::move(net).finish();
}

/// Blocks with a short cut that adds what came in, as it is and through a convolution of its own.
inline int residual_blocks(GraphBuilder& net, int x) {
  for (const int block : {0, 1}) {
    const auto name = fmt::format("block{}", block);
    const int from = x;
    const std::int64_t channels = net.shape(from)[0] * (block + 1), stride = block + 1;
    x = net.relu(name + ".relu1", conv_norm(net, name + ".conv1", from, channels, {3, stride, 1}));
    x = conv_norm(net, name + ".conv2", x, channels, {3, 1, 1});
    x = net.relu(name + ".relu2", net.add(name + ".add", x, block == 0 ? from : conv_norm(net, name + ".downsample", from, channels, {1, stride, 0})));
  }
  return x;
}

inline ModelGraph resnet_of(std::int64_t channels, const SampleShape& images) {
  auto net = for_scenes("resnet", images);
  int x = net.relu("relu", conv_norm(net, "conv1", GraphBuilder::kInput, channels, {3, 1, 1}));
  x = residual_blocks(net, net.max_pool2d("maxpool", x, {3, 2, 1}));
  return classify(std::move(net), x, images.classes);
}

inline ModelGraph narrow_resnet(const Spec&, const SampleShape& images) { return resnet_of(8, images); }

/// With convolutions just so wide that maps and weights lie channels last.
inline ModelGraph wide_resnet(const Spec&, const SampleShape& images) { return resnet_of(32, images); }

/// Batch norm before each convolution; short cuts that nothing changes.
inline ModelGraph narrow_resnet_v2(const Spec&, const SampleShape& images) {
  auto net = for_scenes("resnetv2", images);
  int x = net.conv2d("conv1", GraphBuilder::kInput, 8, {3, 2, 1}, {.bias = false});
  for (const int block : {0, 1}) {
    const auto name = fmt::format("block{}", block);
    const int start = net.relu(name + ".relu1", net.batch_norm2d(name + ".bn1", x));
    int y = net.conv2d(name + ".conv1", start, 4, {1, 1, 0}, {.bias = false});
    y = net.conv2d(name + ".conv2", net.relu(name + ".relu2", net.batch_norm2d(name + ".bn2", y)), 8 * (block + 1), {3, block + 1, 1}, {.bias = false});
    x = net.add(name + ".add", y, block == 0 ? x : net.conv2d(name + ".downsample", start, 16, {1, 2, 0}, {.bias = false}));
  }
  return classify(std::move(net), net.relu("relu", net.batch_norm2d("bn", x)), images.classes);
}

/// Convolutions of each channel by itself between two that mix them.
inline ModelGraph narrow_mobilenet(const Spec&, const SampleShape& images) {
  auto net = for_scenes("mobilenet", images);
  int x = net.relu6("relu", conv_norm(net, "conv1", GraphBuilder::kInput, 4, {3, 2, 1}));
  for (const int block : {0, 1}) {
    const auto name = fmt::format("block{}", block);
    int y = net.relu6(name + ".relu1", conv_norm(net, name + ".widen", x, 12, {1, 1, 0}));
    y = net.relu6(name + ".relu2", conv_norm(net, name + ".depthwise", y, 12, {3, block + 1, 1}, 12));
    y = conv_norm(net, name + ".narrow", y, 4, {1, 1, 0});
    x = block == 0 ? net.add(name + ".add", x, y) : y;
  }
  x = net.dropout("dropout", net.flatten("flatten", net.global_average_pool("avgpool", x)), 0.2);
  net.linear("fc", x, images.classes);
  return std::move(net).finish();
}

inline ModelGraph narrow_vgg(const Spec&, const SampleShape& images) {
  auto net = for_scenes("vgg", images);
  int x = GraphBuilder::kInput;
  for (const int stage : {0, 1, 2}) {
    x = net.relu(fmt::format("relu{}", stage), net.conv2d(fmt::format("conv{}", stage), x, 4 << stage, {3, 1, 1}));
    x = net.max_pool2d(fmt::format("pool{}", stage), x, {2, 2, 0});
  }
  x = net.dropout("dropout", net.relu("relu", net.linear("fc1", net.flatten("flatten", x), 16)), 0.5);
  net.linear("fc2", x, images.classes);
  return std::move(net).finish();
}

/// A wide stride, pooling windows that overlap, maps averaged to a size, and most parameters in linear layers.
inline ModelGraph narrow_alexnet(const Spec&, const SampleShape& images) {
  auto net = for_scenes("alexnet", images);
  int x = net.max_pool2d("pool1", net.relu("relu1", net.conv2d("conv1", GraphBuilder::kInput, 8, {5, 2, 2})), {3, 2, 0});
  x = net.adaptive_average_pool2d("avgpool", net.relu("relu2", net.conv2d("conv2", x, 12, {5, 1, 2})), 3);
  x = net.relu("relu3", net.linear("fc1", net.dropout("dropout1", net.flatten("flatten", x), 0.5), 64));
  net.linear("fc2", net.dropout("dropout2", x, 0.5), images.classes);
  return std::move(net).finish();
}

/// Branches that are laid side by side, windows that are not square, and an auxiliary head.
inline ModelGraph narrow_inception(const Spec&, const SampleShape& images) {
  auto net = for_scenes("inception", images);
  const int x = net.relu("relu1", conv_norm(net, "conv1", GraphBuilder::kInput, 8, {3, 2, 0}));
  const int three = net.relu("relu2", conv_norm(net, "branch3x3", x, 8, {3, 1, 1}));
  const int row = conv_norm(net, "row", three, 4, {{1, 3}, 1, {0, 1}}), column = conv_norm(net, "column", three, 4, {{3, 1}, 1, {1, 0}});
  const int pooled = conv_norm(net, "pooled", net.average_pool2d("branchpool", x, {3, 1, 1}), 4, {1, 1, 0});
  const int all = net.relu("relu3", net.concatenate("mixed", {row, column, pooled}));
  const int head = net.flatten("aux.flatten", net.global_average_pool("aux.avgpool", conv_norm(net, "aux.conv", all, 8, {1, 1, 0})));
  net.auxiliary(net.linear("aux.fc", head, images.classes));
  return classify(std::move(net), net.relu("relu4", conv_norm(net, "last", all, 12, {3, 2, 1})), images.classes);
}

/// A residual encoder, of which an LSTM is given the image before the words.
inline ModelGraph narrow_captioner(const SampleShape& shape, bool frozen) {
  GraphBuilder net("captioner", {shape.channels, shape.height, shape.width});
  const int target = net.input("target", InputPart::target, {shape.target_length - 1});
  net.freeze(frozen);
  int image = residual_blocks(net, net.relu("relu", conv_norm(net, "conv1", GraphBuilder::kInput, 8, {3, 2, 1})));
  image = net.flatten("flatten", net.global_average_pool("avgpool", image));
  net.freeze(false);
  image = net.linear("image", image, 16);
  const int words = net.dropout("embedding.dropout", net.embedding("embedding", target, shape.classes, 16, {}), 0.3);
  net.linear("output", net.dropout("lstm.dropout", net.lstm("lstm", words, 16, uniform_weights(0.3F), image), 0.3), shape.classes);
  return std::move(net).finish();
}

}  // namespace ddl::testing
