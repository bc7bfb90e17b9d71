#include "ddl/nn/builtin.h"
#include "ddl/nn/networks/common.h"

namespace ddl {

/// Two convolutions and two linear layers: what frameworks' first examples train on CIFAR-10, and what our peers' scripts do.
/// Shape:   images of at least 4x4, any channels -> classes.
/// Size:    545,098 parameters for 3x32x32 and ten classes.
/// Source:  names and initialisation as the torch.nn.Sequential of it.
ModelGraph smallcnn(const Spec& options, const SampleShape& images) {
  require_options(options, {});
  auto net = for_images("smallcnn", images);
  int x = net.relu("1", net.conv2d("0", GraphBuilder::kInput, 32, {3, 1, 1}));
  x = net.max_pool2d("2", x, {2, 2, 0});
  x = net.relu("4", net.conv2d("3", x, 64, {3, 1, 1}));
  x = net.flatten("6", net.max_pool2d("5", x, {2, 2, 0}));
  x = net.relu("8", net.linear("7", x, 128));
  net.linear("9", x, images.classes);
  return std::move(net).finish();
}

}  // namespace ddl
