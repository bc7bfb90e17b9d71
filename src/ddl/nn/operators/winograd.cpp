#include "ddl/nn/operators/winograd.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "ddl/nn/element_type.h"
#include "ddl/nn/kernels/winograd.h"
#include "ddl/nn/matrix_products.h"
#include "ddl/nn/multiplier.h"
#include "ddl/nn/operators/bias_gradient.h"
#include "ddl/nn/operators/weighted_node.h"
#include "ddl/nn/threads.h"
#include "ddl/nn/weight_gradient.h"

namespace ddl {
namespace {

using torch::autograd::variable_list;

WinogradTiles tiles_of(const Windows& w) { return {w.samples, w.height, w.width, w.padding_height, w.padding_width}; }

/// Of what a gradient of the output goes back through: a convolution of the output's maps to the input's.
WinogradTiles tiles_back(const Windows& w) { return {w.samples, w.places_high, w.places_wide, 2 - w.padding_height, 2 - w.padding_width}; }

/// `f(place, first, count)`: tiles of a block, and its number among those that are under way. Where each has a thread of its own, all that is within does its work by that one.
template <typename F>
void for_blocks(std::int64_t tiles, const TileBlocks& blocks, F&& f) {
  const auto some = [&](std::int64_t place, std::int64_t begin, std::int64_t end) {
    for (auto first = begin * blocks.tiles; first < std::min(tiles, end * blocks.tiles); first += blocks.tiles) f(place, first, std::min(blocks.tiles, tiles - first));
  };
  if (blocks.apart == 1) return some(0, 0, blocks.count);
  at::parallel_for(0, blocks.count, 1, [&](std::int64_t begin, std::int64_t end) {
    const at::AutoDispatchBelowADInplaceOrView below;
    some(at::get_thread_num(), begin, end);
  });
}

/// `f(part)` of a block, by all threads that share it.
template <typename F>
void for_tiles(std::int64_t first, std::int64_t count, std::int64_t channels, F&& f) {
  share_out(count, kTilePoints * channels, [&](std::int64_t begin, std::int64_t end) { f(TilePart{first, count, first + begin, first + end}); });
}
template <typename F>
void for_channels(std::int64_t out, std::int64_t in, F&& f) {
  share_out(out, kTilePoints * in, [&](std::int64_t begin, std::int64_t end) { f(ChannelPart{out, in, begin, end}); });
}

/// Transformed tiles of as many blocks as are under way, each [16, tiles, channels].
template <typename T>
class BlocksMemory {
 public:
  BlocksMemory(const TileBlocks& blocks, std::int64_t channels, const at::TensorOptions& options) : memory_(at::empty({blocks.apart, kTilePoints * blocks.tiles * channels}, options)), at_(places<T>(memory_)), channels_(channels) {}

  T* at(std::int64_t place) const { return at_ + place * memory_.size(1); }
  /// Of a block of so many tiles.
  at::Tensor block(std::int64_t place, std::int64_t tiles) const { return memory_[place].narrow(0, 0, kTilePoints * tiles * channels_).view({kTilePoints, tiles, channels_}); }

 private:
  at::Tensor memory_;
  T* at_;
  std::int64_t channels_;
};

/// Maps of `from` channels to maps of `to`, by weights [out, 3, 3, in] or, turned, from out to in.
template <typename T>
void convolve(const WinogradTiles& tiles, std::int64_t out, std::int64_t in, bool turned, const at::Tensor& maps, const at::Tensor& weight, const Wide<T>* bias, bool rectifies, at::Tensor& result) {
  const auto options = plain_options(maps);
  const auto by = at::empty({kTilePoints, out, in}, options);
  for_channels(out, in, [&, from = elements<Wide<T>>(weight), to = places<T>(by)](const ChannelPart& part) { winograd_weights(part, from, turned, to); });
  const auto factor = turned ? by : by.transpose(1, 2);
  const auto from = factor.size(1), to = factor.size(2);
  const auto blocks = tile_blocks(tiles.tiles(), from + to, 0, sizeof(T), at::get_num_threads());
  const BlocksMemory<T> seen(blocks, from, options), products(blocks, to, options);
  const auto* const read = elements<T>(maps);
  auto* const written = places<T>(result);
  for_blocks(tiles.tiles(), blocks, [&](std::int64_t place, std::int64_t first, std::int64_t count) {
    for_tiles(first, count, from, [&](const TilePart& part) { winograd_see(tiles, part, from, read, seen.at(place)); });
    auto product = products.block(place, count);
    multiply_into(product, seen.block(place, count), factor);
    for_tiles(first, count, to, [&](const TilePart& part) { winograd_gather(tiles, part, to, products.at(place), bias, rectifies, written); });
  });
}

template <typename T>
void make_weight_gradient(const WinogradTiles& tiles, const at::Tensor& maps, const at::Tensor& gradient, bool adds, at::Tensor& to) {
  const auto in = maps.size(1), out = gradient.size(1);
  const auto blocks = tile_blocks(tiles.tiles(), in + out, kTilePoints * in * out, sizeof(T), at::get_num_threads());
  const auto options = plain_options(maps);
  const BlocksMemory<T> seen(blocks, in, options), spread(blocks, out, options);
  const auto sums = at::empty({blocks.apart, kTilePoints, out, in}, plain_options(to));
  std::vector<char> begun(static_cast<std::size_t>(blocks.apart), 0);
  const auto *const read = elements<T>(maps), *const given = elements<T>(gradient);
  for_blocks(tiles.tiles(), blocks, [&](std::int64_t place, std::int64_t first, std::int64_t count) {
    for_tiles(first, count, in + out, [&](const TilePart& part) {
      winograd_see(tiles, part, in, read, seen.at(place));
      winograd_spread(tiles, part, out, given, spread.at(place));
    });
    auto sum = sums[place];
    auto& adds_up = begun[static_cast<std::size_t>(place)];
    multiply_into(sum, spread.block(place, count).transpose(1, 2), seen.block(place, count), adds_up != 0);
    adds_up = 1;
  });
  // The first has blocks whenever any has.
  auto sum = sums[0];
  for (std::int64_t place = 1; place < blocks.apart; ++place)
    if (begun[static_cast<std::size_t>(place)] != 0) sum.add_(sums[place]);
  for_channels(out, in, [&, products = elements<Wide<T>>(sum), at = places<Wide<T>>(to)](const ChannelPart& part) { winograd_weight_gradient(part, products, adds, at); });
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
        if (task_should_compute_output(1)) found[1] = put_gradient(factor, sharing, [&](at::Tensor& to, bool adds) { make_weight_gradient<T>(tiles_of(windows), from, gradient, adds, to); });
      });
    });
  }
};

}  // namespace

at::Tensor convolve_by_tiles(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias, Sharing sharing, const Windows& windows, bool rectifies) {
  at::Tensor out;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    out = at::empty({windows.samples, weight.size(0), windows.places_high, windows.places_wide}, input.options().requires_grad(false).memory_format(at::MemoryFormat::ChannelsLast));
    with_value_type(input, [&](auto zero) {
      using T = decltype(zero);
      convolve<T>(tiles_of(windows), weight.size(0), weight.size(1), false, input, weight, bias.defined() ? elements<Wide<T>>(bias) : nullptr, rectifies, out);
    });
  }
  return with_node<WinogradNode>(std::move(out), input, weight, bias, sharing, rectifies, [&](WinogradNode& node) { node.windows = windows; });
}

}  // namespace ddl
