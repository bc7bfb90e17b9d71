#include "ddl/nn/builtin.h"
#include "ddl/nn/networks/common.h"

namespace ddl {

/// A multi-layer perceptron: `layers` hidden layers of `hidden` units with ReLU.
/// Shape:   any images -> classes.
/// Size:    669,706 parameters for 1x28x28, ten classes and the standard two layers of 512.
/// Source:  Rumelhart, Hinton & Williams, Nature 323, 1986; initialised as torch.nn.Linear.
ModelGraph mlp(const Spec& options, const SampleShape& images) {
  require_options(options, {"hidden", "layers"});
  const auto hidden = whole_option(options, "hidden", 512, 1, 1 << 20), layers = whole_option(options, "layers", 2, 0, 1000);
  auto net = for_images("mlp", images);
  int x = net.flatten("flatten", GraphBuilder::kInput);
  for (std::int64_t i = 1; i <= layers; ++i) x = net.relu(fmt::format("relu{}", i), net.linear(fmt::format("fc{}", i), x, hidden));
  net.linear(fmt::format("fc{}", layers + 1), x, images.classes);
  return std::move(net).finish();
}

}  // namespace ddl
