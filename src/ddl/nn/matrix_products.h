#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "ddl/nn/graph.h"
#include "ddl/nn/kernels/windows.h"

namespace ddl {

/// How the window of a convolution slides over maps [samples, channels, height, width], with so much padding on both sides.
Windows windows_over(const Attributes& of, const std::array<std::int64_t, 4>& maps, const Pair& padding);

/// Whether a convolution to so many channels is one product of matrices for the fast kernels of a processor (operators/product.h); else oneDNN's is as fast. Two sorts are not its:
/// 1x1 convolutions of few samples on one thread, which ATen leaves to a kernel that copies maps that lie channels last on their way there and back (use_mkldnn() in its Convolution.cpp: fewer than 16); and others
/// of few places, where most of the time goes into the weights, which oneDNN reorders in each pass, and their gradients back. decisions/028 and 033.
bool is_product(const Attributes& of, const Windows& windows, std::int64_t channels);

/// Whether a convolution to so many channels goes by tiles (operators/winograd.h) for the fast kernels of a processor, rather than as one product: windows of 3x3 with stride 1, and enough places that it pays
/// to transform the weights. decisions/035.
bool goes_by_tiles(const Attributes& of, const Windows& windows, std::int64_t channels);

inline constexpr std::int64_t kTilePoints = 16;  ///< of a transformed tile
/// How tiles are transformed together: blocks of about the same size, so that what is transformed of both sides is near 2 MiB, but no product of so few rows that its other factor is read for nothing.
struct TileBlocks {
  std::int64_t tiles;  ///< of a block; odd, since tiles times channels that are a power of two would lie in few lines of a cache
  std::int64_t count;
  /// Under way at the same time, each by a thread of its own from end to end, so that what is transformed stays in that core's caches. 1: one block after the other, each larger, by all threads.
  int apart;
};
/// `sums`: elements that each of those under way needs besides; where that is too much for all they are 1.
TileBlocks tile_blocks(std::int64_t tiles, std::int64_t channels_of_both, std::int64_t sums, std::size_t element_bytes, int threads);

/// Which way those kernels compute a convolution, of so many samples and with maps that lie channels last: time as a function of samples leaps where that changes. `other` of all else.
enum class ConvolutionWay { other, product, tiles };
ConvolutionWay way_of(const ModelGraph& graph, int layer, std::int64_t samples);

/// Elements that there are, for a moment, beside the gradient of a layer's parameter while those kernels make it, of so many samples, by so many threads and with maps that lie channels last; nothing where they do not make it by
/// products of their own, which add it to where it belongs, or add rows of a table there.
std::optional<std::int64_t> beside_gradient(const ModelGraph& graph, int layer, int parameter, std::int64_t samples, int threads = 1);

/// Whose a parameter is: that one of a layer's own.
struct ParameterOwner {
  int layer, number;
};
/// Of each that trains.
std::vector<ParameterOwner> owners_of_parameters(const ModelGraph& graph);

}  // namespace ddl
