#include "ddl/nn/matrix_products.h"

#include <algorithm>

#include "ddl/core/at.h"

namespace ddl {
namespace {

/// Of a layer of a network; as operators/images.cpp pads: what is not the same on both sides is there before.
Windows windows_of(const ModelGraph& graph, const Layer& layer, std::int64_t samples) {
  const auto& a = layer.attributes;
  const auto& from = graph.layers[at(layer.inputs[0])].shape;
  auto padding = a.padding;
  std::array<std::int64_t, 4> maps{samples, from[0], from[1], from[2]};
  const auto make = [](std::int64_t& size, std::int64_t& before, std::int64_t after) {
    if (after < 0 || after == before) return;
    size += before + after;
    before = 0;
  };
  make(maps[2], padding.height, a.padding_after.height);
  make(maps[3], padding.width, a.padding_after.width);
  return windows_over(a, maps, padding);
}

/// Of 2x2 places each.
std::int64_t tiles_of(const Windows& w) { return w.samples * ((w.places_high + 1) / 2) * ((w.places_wide + 1) / 2); }

}  // namespace

Windows windows_over(const Attributes& of, const std::array<std::int64_t, 4>& maps, const Pair& padding) {
  const auto places = [](std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t around) { return (size + 2 * around - kernel) / stride + 1; };
  const auto [samples, channels, height, width] = maps;
  return {samples, height, width, channels, of.kernel.height, of.kernel.width, of.stride.height, of.stride.width, padding.height, padding.width,
          places(height, of.kernel.height, of.stride.height, padding.height), places(width, of.kernel.width, of.stride.width, padding.width)};
}

bool is_product(const Attributes& of, const Windows& windows, std::int64_t channels) {
  constexpr std::int64_t kManySamples = 16, kManyChannels = 64;
  if (of.groups != 1) return false;
  const bool pointwise = windows.kernel_height == 1 && windows.kernel_width == 1 && windows.padding_height == 0 && windows.padding_width == 0;
  return pointwise ? windows.samples < kManySamples : windows.channels >= kManyChannels && windows.places() <= 2 * channels;
}

bool goes_by_tiles(const Attributes& of, const Windows& windows, std::int64_t channels) {
  // Of each pair of channels: what transforming its weights takes, in products that could be done meanwhile (measured: 750 to 1,100).
  constexpr std::int64_t kFewestChannels = 32, kTransforming = 1000;
  if (of.groups != 1 || windows.kernel_height != 3 || windows.kernel_width != 3 || windows.stride_height != 1 || windows.stride_width != 1) return false;
  if (windows.padding_height > 2 || windows.padding_width > 2 || std::min(windows.channels, channels) < kFewestChannels) return false;
  return 9 * windows.places() > kTilePoints * tiles_of(windows) + kTransforming;
}

TileBlocks tile_blocks(std::int64_t tiles, std::int64_t channels_of_both, std::int64_t sums, std::size_t element_bytes, int threads) {
  constexpr std::int64_t kBytes = std::int64_t{2} << 20, kFewest = 127, kFewestApart = 48, kSums = std::int64_t{64} << 20;
  const auto size = static_cast<std::int64_t>(element_bytes);
  const auto up = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  // The last is smaller, or there is one less.
  const auto in = [&](std::int64_t blocks, int apart) {
    const auto each = std::min(tiles, up(tiles, blocks) | 1);
    return TileBlocks{each, up(tiles, each), apart};
  };
  const auto blocks_of = [&](std::int64_t bytes) { return up(tiles, std::max(kFewest, bytes / (kTilePoints * channels_of_both * size))); };
  if (threads == 1) return in(blocks_of(kBytes), 1);
  const auto apart = in(up(blocks_of(kBytes), threads) * threads, threads);
  return apart.tiles >= kFewestApart && threads * sums * size <= kSums ? apart : in(blocks_of(threads * kBytes), 1);
}

ConvolutionWay way_of(const ModelGraph& graph, int number, std::int64_t samples) {
  const auto& layer = graph.layers[at(number)];
  if (layer.kind != LayerKind::conv2d || !has_wide_convolutions(graph)) return ConvolutionWay::other;
  const auto windows = windows_of(graph, layer, samples);
  if (goes_by_tiles(layer.attributes, windows, layer.shape[0])) return ConvolutionWay::tiles;
  return is_product(layer.attributes, windows, layer.shape[0]) ? ConvolutionWay::product : ConvolutionWay::other;
}

std::optional<std::int64_t> beside_gradient(const ModelGraph& graph, int number, int parameter, std::int64_t samples, int threads) {
  const auto& layer = graph.layers[at(number)];
  const auto dimensions = layer.parameters[at(parameter)].shape.size();
  switch (layer.kind) {
    case LayerKind::linear:
    case LayerKind::attention: return dimensions == 2 ? std::optional<std::int64_t>(0) : std::nullopt;
    case LayerKind::conv2d: {
      if (dimensions != 4) return {};
      const auto way = way_of(graph, number, samples);
      if (way == ConvolutionWay::other) return {};
      const auto windows = windows_of(graph, layer, samples);
      if (way == ConvolutionWay::tiles) {
        // Sums of products for each of a tile's points, and a block of tiles of both sides; as much, with transformed weights for sums, as other passes work in.
        const auto channels = windows.channels + layer.shape[0], sums = kTilePoints * windows.channels * layer.shape[0];
        const auto blocks = tile_blocks(tiles_of(windows), channels, sums, sizeof(float), threads);
        return blocks.apart * (sums + kTilePoints * blocks.tiles * channels);
      }
      return windows.are_pixels() ? 0 : windows.places() * windows.seen();
    }
    case LayerKind::embedding: return 0;
    default: return {};
  }
}

std::vector<ParameterOwner> owners_of_parameters(const ModelGraph& graph) {
  std::vector<ParameterOwner> owners;
  for (int layer = 0; layer < static_cast<int>(graph.layers.size()); ++layer) {
    const auto& own = graph.layers[at(layer)].parameters;
    for (int number = 0; number < static_cast<int>(own.size()); ++number)
      if (own[at(number)].trainable) owners.push_back({layer, number});
  }
  return owners;
}

}  // namespace ddl
