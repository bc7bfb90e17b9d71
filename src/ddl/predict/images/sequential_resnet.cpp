#include "ddl/predict/images/networks.h"

namespace ddl {

/// Source: torchgpipe 0.0.7, benchmarks/models/resnet: each convolution, norm and ReLU is a layer; a bottleneck begins with a layer that keeps its input for the short cut, which is then carried
/// beside the value until both are joined, where it is also brought to shape.
SequentialNetwork sequential_resnet(const std::vector<int>& bottlenecks, double size) {
  constexpr double kStem = 64, kClasses = 1000;
  SequentialNetwork net;
  const auto add = [&](ImageOperators operators, double leaves) { net.push_back({std::move(operators), leaves}); };
  const auto maps = [](double channels, double side) { return channels * side * side; };

  double side = size / 2, channels = kStem;
  add({convolution(3, kStem, 7, side, size)}, maps(kStem, side));
  add({norm(maps(kStem, side), kStem)}, maps(kStem, side));
  add({elementwise(maps(kStem, side))}, maps(kStem, side));
  add({pooling(maps(kStem, side), maps(kStem, side / 2))}, maps(kStem, side / 2));
  side /= 2;

  double width = kStem;
  for (std::size_t stage = 0; stage < bottlenecks.size(); ++stage, width *= 2)
    for (int block = 0; block < bottlenecks[stage]; ++block) {
      const double after = stage > 0 && block == 0 ? side / 2 : side, shortcut = maps(channels, side), wide = 4 * width;
      add({}, shortcut);
      add({convolution(channels, width, 1, side)}, maps(width, side) + shortcut);
      add({norm(maps(width, side), width)}, maps(width, side) + shortcut);
      add({elementwise(maps(width, side))}, maps(width, side) + shortcut);
      add({convolution(width, width, 3, after, side)}, maps(width, after) + shortcut);
      add({norm(maps(width, after), width)}, maps(width, after) + shortcut);
      add({elementwise(maps(width, after))}, maps(width, after) + shortcut);
      add({convolution(width, wide, 1, after)}, maps(wide, after) + shortcut);
      add({norm(maps(wide, after), wide)}, maps(wide, after) + shortcut);
      ImageOperators join;
      if (block == 0) join = {convolution(channels, wide, 1, after, side), norm(maps(wide, after), wide)};
      join.push_back(elementwise(maps(wide, after), 2));
      add(std::move(join), maps(wide, after));
      add({elementwise(maps(wide, after))}, maps(wide, after));
      channels = wide;
      side = after;
    }
  add({pooling(maps(channels, side), channels)}, channels);
  add({}, channels);
  add({linear(channels, kClasses)}, kClasses);
  return net;
}

}  // namespace ddl
