#include "ddl/predict/images/networks.h"

namespace ddl {
namespace {

void append(ImageOperators& to, ImageOperators more) {
  to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

/// ReLU, convolution, norm.
ImageOperators convolve(double from, double to, double kernel, double after, double before) {
  return {elementwise(from * before * before), convolution(from, to, kernel, after, before), norm(to * after * after, to)};
}

/// Halves the resolution by two convolutions of a pixel, on the maps and on the maps moved by one, one beside the other.
ImageOperators factorised_reduce(double from, double to, double after) {
  const double before = 2 * after;
  return {elementwise(from * before * before), copying(from * before * before, from * before * before), convolution(from, to / 2, 1, after, before), convolution(from, to / 2, 1, after, before),
          copying(to * after * after, to * after * after), norm(to * after * after, to)};
}

/// 1x7 and 7x1 convolutions of a quarter of the channels, between two of a pixel.
ImageOperators bottleneck_1x7_7x1(double channels, double after, double before) {
  const double quarter = channels / 4, between = before * after;  // pixels after the first of the two has strided along one side
  ImageOperators out = convolve(channels, quarter, 1, before, before);
  append(out, {elementwise(quarter * before * before), convolution(quarter, quarter, 7, before * before, between, false, false), norm(quarter * between, quarter), elementwise(quarter * between),
               convolution(quarter, quarter, 7, between, after * after, false, false), norm(quarter * after * after, quarter)});
  append(out, convolve(quarter, channels, 1, after, after));
  return out;
}

ImageOperators bottleneck_3x3(double channels, double after, double before) {
  const double quarter = channels / 4;
  ImageOperators out = convolve(channels, quarter, 1, before, before);
  append(out, convolve(quarter, quarter, 3, after, before));
  append(out, convolve(quarter, channels, 1, after, after));
  return out;
}

enum class Make { nothing, pool, pointwise, long_bottleneck, bottleneck };

/// One of a cell's ten operations: which of the states it reads (0 and 1: what came in), and what it does.
struct Operation {
  int reads;
  Make make;
};

/// Real et al. 2019, figure 2, as torchgpipe has them.
constexpr Operation kNormal[] = {{1, Make::pointwise}, {1, Make::pool}, {1, Make::nothing}, {0, Make::long_bottleneck}, {0, Make::pointwise},
                                 {0, Make::long_bottleneck}, {2, Make::pool}, {2, Make::nothing}, {1, Make::pool}, {5, Make::pointwise}};
constexpr Operation kReduction[] = {{0, Make::pool}, {0, Make::pool}, {2, Make::nothing}, {1, Make::bottleneck}, {2, Make::long_bottleneck},
                                    {2, Make::pool}, {3, Make::nothing}, {1, Make::pool}, {2, Make::pool}, {3, Make::pointwise}};
constexpr double kNormalJoins = 4, kReductionJoins = 3;  ///< states of a cell that are its output, one beside the other

ImageOperators operation(Make make, double channels, double after, double before) {
  switch (make) {
    case Make::nothing: return after < before ? factorised_reduce(channels, channels, after) : ImageOperators{};
    case Make::pool: return {pooling(channels * before * before, channels * after * after, false)};  // its 3x3 maxima are means, too (operations.py)
    case Make::pointwise: return convolve(channels, channels, 1, after, before);
    case Make::long_bottleneck: return bottleneck_1x7_7x1(channels, after, before);
    case Make::bottleneck: return bottleneck_3x3(channels, after, before);
  }
  return {};
}

class AmoebaNetLayers {
 public:
  AmoebaNetLayers(int filters, double size) : side_(size / 2), channels_(filters / 4), previous_(channels_), value_(channels_) {
    net_.push_back({{elementwise(3 * size * size), convolution(3, channels_, 3, side_, size), norm(channels_ * side_ * side_, channels_)}, channels_ * side_ * side_});
  }

  void cell(bool reduces) {
    if (reduces) channels_ *= 2;
    ImageOperators all = convolve(value_, channels_, 1, side_, side_);
    if (after_reduction_) append(all, factorised_reduce(previous_, channels_, side_));
    else if (previous_ != channels_) append(all, convolve(previous_, channels_, 1, side_, side_));
    const double after = reduces ? side_ / 2 : side_;
    for (const auto& [reads, make] : reduces ? kReduction : kNormal) append(all, operation(make, channels_, after, reads < 2 ? side_ : after));
    for (int pair = 0; pair < 5; ++pair) all.push_back(elementwise(channels_ * after * after, 2));
    const double joined = channels_ * (reduces ? kReductionJoins : kNormalJoins);
    all.push_back(copying(joined * after * after, joined * after * after));
    const double carried = value_ * side_ * side_;  // the cell after the next reads it
    previous_ = value_;
    value_ = joined;
    net_.push_back({std::move(all), value_ * after * after + carried});
    side_ = after;
    after_reduction_ = reduces;
  }

  SequentialNetwork finish() {
    constexpr double kClasses = 1000;
    net_.push_back({{pooling(value_ * side_ * side_, value_), linear(value_, kClasses)}, kClasses});
    return std::move(net_);
  }

 private:
  SequentialNetwork net_;
  double side_, channels_, previous_, value_;  ///< channels of the cell, of its two inputs
  bool after_reduction_ = false;
};

}  // namespace

/// Source: Real, Aggarwal, Huang & Le, AAAI 2019; torchgpipe 0.0.7, benchmarks/models/amoebanet.
SequentialNetwork sequential_amoebanet(int layers, int filters, double size) {
  AmoebaNetLayers net(filters, size);
  for (int stem = 0; stem < 2; ++stem) net.cell(true);
  for (int third = 0; third < 3; ++third) {
    if (third > 0) net.cell(true);
    for (int cell = 0; cell < layers / 3; ++cell) net.cell(false);
  }
  return net.finish();
}

}  // namespace ddl
