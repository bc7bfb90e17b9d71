#include "ddl/nn/builtin.h"
#include "ddl/nn/networks/common.h"

namespace ddl {

/// AlexNet as one tower. Images under 64 pixels begin with a 3x3 convolution of stride 1, pool two by two, and have 1,024
/// hidden units rather than 4,096.
/// Shape:   any channels, at least 8x8 -> classes.
/// Size:    61,100,840 parameters for ImageNet.
/// Source:  Krizhevsky, One weird trick for parallelizing convolutional neural networks, 2014; names and start as
///          torchvision. Option dropout, 0.5 unless told.
ModelGraph alexnet(const Spec& options, const SampleShape& images) {
  require_options(options, {"dropout"});
  const double rate = part_option(options, "dropout", 0.5);
  auto net = for_images("alexnet", images, 8);
  const bool small = small_images(images);
  const auto pool = small ? GraphBuilder::Window{2, 2, 0} : GraphBuilder::Window{3, 2, 0};
  int x = net.conv2d("features.0", GraphBuilder::kInput, 64, small ? GraphBuilder::Window{3, 1, 1} : GraphBuilder::Window{11, 4, 2});
  x = net.max_pool2d("features.2", net.relu("features.1", x), pool);
  x = net.relu("features.4", net.conv2d("features.3", x, 192, {5, 1, 2}));
  x = net.max_pool2d("features.5", x, pool);
  x = net.relu("features.7", net.conv2d("features.6", x, 384, {3, 1, 1}));
  x = net.relu("features.9", net.conv2d("features.8", x, 256, {3, 1, 1}));
  x = net.relu("features.11", net.conv2d("features.10", x, 256, {3, 1, 1}));
  x = net.max_pool2d("features.12", x, pool);
  if (!small) x = net.adaptive_average_pool2d("avgpool", x, 6);
  x = net.flatten("flatten", x);
  const std::int64_t hidden = small ? 1024 : 4096;
  x = net.relu("classifier.2", net.linear("classifier.1", net.dropout("classifier.0", x, rate), hidden));
  x = net.relu("classifier.5", net.linear("classifier.4", net.dropout("classifier.3", x, rate), hidden));
  net.linear("classifier.6", x, images.classes);
  return std::move(net).finish();
}

}  // namespace ddl
