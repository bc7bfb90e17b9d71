#include "ddl/nn/operators/winograd.h"

#include <algorithm>
#include <utility>

#include "ddl/nn/element_type.h"
#include "ddl/nn/kernels/winograd.h"
#include "ddl/nn/matrix_products.h"
#include "ddl/nn/multiplier.h"
#include "ddl/nn/operators/bias_gradient.h"
#include "ddl/nn/operators/weighted_node.h"
#include "ddl/nn/weight_gradient.h"

namespace ddl {
namespace {

using torch::autograd::variable_list;

WinogradTiles tiles_of(const Windows& w) { return {w.samples, w.height, w.width, w.padding_height, w.padding_width}; }

/// Of what a gradient of the output goes back through: a convolution of the output's maps to the input's.
WinogradTiles tiles_back(const Windows& w) { return {w.samples, w.places_high, w.places_wide, 2 - w.padding_height, 2 - w.padding_width}; }

template <typename F>
void for_blocks(std::int64_t tiles, std::int64_t at_once, F&& f) {
  for (std::int64_t first = 0; first < tiles; first += at_once) f(first, std::min(tiles, first + at_once));
}

/// The first so many tiles' worth of a block's memory.
at::Tensor part_of(const at::Tensor& block, std::int64_t tiles, std::int64_t channels) { return block.narrow(0, 0, kTilePoints * tiles * channels).view({kTilePoints, tiles, channels}); }

/// Maps of `from` channels to maps of `to`, by weights [out, 3, 3, in] or, turned, from out to in.
template <typename T>
void convolve(const WinogradTiles& tiles, std::int64_t out, std::int64_t in, bool turned, const at::Tensor& maps, const at::Tensor& weight, const Wide<T>* bias, bool rectifies, at::Tensor& result) {
  const auto options = plain_options(maps);
  const auto by = at::empty({kTilePoints, out, in}, options);
  winograd_weights(out, in, elements<Wide<T>>(weight), turned, places<T>(by));
  const auto factor = turned ? by : by.transpose(1, 2);
  const auto from = factor.size(1), to = factor.size(2), at_once = tiles_at_once(tiles.tiles(), from + to, sizeof(T));
  const auto seen = at::empty({kTilePoints * at_once * from}, options), products = at::empty({kTilePoints * at_once * to}, options);
  for_blocks(tiles.tiles(), at_once, [&](std::int64_t first, std::int64_t last) {
    auto product = part_of(products, last - first, to);
    winograd_see(tiles, first, last, from, elements<T>(maps), places<T>(seen));
    multiply_into(product, part_of(seen, last - first, from), factor);
    winograd_gather(tiles, first, last, to, elements<T>(product), bias, rectifies, places<T>(result));
  });
}

template <typename T>
void make_weight_gradient(const WinogradTiles& tiles, const at::Tensor& maps, const at::Tensor& gradient, bool adds, at::Tensor& to) {
  const auto in = maps.size(1), out = gradient.size(1), at_once = tiles_at_once(tiles.tiles(), in + out, sizeof(T));
  const auto options = plain_options(maps);
  const auto seen = at::empty({kTilePoints * at_once * in}, options), spread = at::empty({kTilePoints * at_once * out}, options);
  auto sums = at::empty({kTilePoints, out, in}, plain_options(to));
  for_blocks(tiles.tiles(), at_once, [&](std::int64_t first, std::int64_t last) {
    winograd_see(tiles, first, last, in, elements<T>(maps), places<T>(seen));
    winograd_spread(tiles, first, last, out, elements<T>(gradient), places<T>(spread));
    const auto left = part_of(spread, last - first, out).transpose(1, 2), right = part_of(seen, last - first, in);
    multiply_into(sums, left, right, first > 0);
  });
  winograd_weight_gradient(out, in, elements<Wide<T>>(sums), adds, places<Wide<T>>(to));
}

struct WinogradNode final : WeightedNode {
  Windows windows{};

  /// split_backward.cpp knows products by their names.
  std::string name() const override { return "WinogradBackward"; }

  variable_list apply(variable_list&& gradients) override {
    return back_through_maps(std::move(gradients), [&](const at::Tensor& gradient, const at::Tensor& from, const at::Tensor& factor, variable_list& found) {
      with_value_type(from, [&](auto zero) {
        using T = decltype(zero);
        if (task_should_compute_output(0)) {
          found[0] = at::empty(from.sizes(), from.options().requires_grad(false).memory_format(at::MemoryFormat::ChannelsLast));
          convolve<T>(tiles_back(windows), factor.size(0), factor.size(1), true, gradient, factor, nullptr, false, found[0]);
        }
        if (task_should_compute_output(2)) found[2] = bias_gradient(gradient.permute({0, 2, 3, 1}).view({-1, factor.size(0)}), factor.scalar_type());
        if (task_should_compute_output(1)) found[1] = put_gradient(factor, alone, [&](at::Tensor& to, bool adds) { make_weight_gradient<T>(tiles_of(windows), from, gradient, adds, to); });
      });
    });
  }
};

}  // namespace

at::Tensor convolve_by_tiles(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias, bool alone, const Windows& windows, bool rectifies) {
  at::Tensor out;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    out = at::empty({windows.samples, weight.size(0), windows.places_high, windows.places_wide}, input.options().requires_grad(false).memory_format(at::MemoryFormat::ChannelsLast));
    with_value_type(input, [&](auto zero) {
      using T = decltype(zero);
      convolve<T>(tiles_of(windows), weight.size(0), weight.size(1), false, input, weight, bias.defined() ? elements<Wide<T>>(bias) : nullptr, rectifies, out);
    });
  }
  return with_node<WinogradNode>(std::move(out), input, weight, bias, alone, rectifies, [&](WinogradNode& node) { node.windows = windows; });
}

}  // namespace ddl
