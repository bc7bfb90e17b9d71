#include "ddl/nn/builtin.h"
#include "ddl/nn/networks/common.h"

namespace ddl {

/// LeNet-5 with today's parts: ReLU for tanh, max pooling for trained subsampling, softmax for RBF units.
/// Shape:   images of 28x28 (padded to 32x32) or larger, any channels -> classes.
/// Size:    61,706 parameters for 1x28x28 and ten classes.
/// Source:  LeCun, Bottou, Bengio & Haffner, Proc. IEEE 86(11), 1998.
ModelGraph lenet(const Spec& options, const SampleShape& images) {
  require_options(options, {});
  auto net = for_images("lenet", images);
  const std::int64_t padding = images.height < 32 ? 2 : 0;
  int x = net.conv2d("conv1", GraphBuilder::kInput, 6, {5, 1, padding});
  x = net.max_pool2d("pool1", net.relu("relu1", x), {2, 2, 0});
  x = net.conv2d("conv2", x, 16, {5, 1, 0});
  x = net.max_pool2d("pool2", net.relu("relu2", x), {2, 2, 0});
  x = net.flatten("flatten", x);
  x = net.relu("relu3", net.linear("fc1", x, 120));
  x = net.relu("relu4", net.linear("fc2", x, 84));
  net.linear("fc3", x, images.classes);
  return std::move(net).finish();
}

}  // namespace ddl
