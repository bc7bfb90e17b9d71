#pragma once

#include <cstdint>

#include "ddl/core/bf16.h"

namespace ddl {

// Winograd's minimal algorithm F(2x2, 3x3) for convolutions of 3x3 windows and stride 1, on maps that lie channels last: Lavin & Gray, Fast Algorithms for Convolutional Neural Networks, CVPR 2016, section 4.1. An output tile of 2x2 pixels takes
// 16 products for each pair of channels where the definition takes 36. With g a window of weights, d the 4x4 pixels that a tile sees and y the tile:
//
//   y = A' [(G g G') * (B' d B)] A,   and its gradients: of g, G' [(A dy A') * (B' d B)] G; of d, the same algorithm with g turned by half a turn.
//
// Transformed tiles lie as [16, tiles, channels] and weights as [16, channels out, channels in], so that what is left are 16 products of matrices.

/// Maps [samples, height, width, channels], and the tiles of the convolution's output [samples, out height, out width, …].
struct WinogradTiles {
  std::int64_t samples, height, width, padding_height, padding_width;

  std::int64_t out_height() const { return height + 2 * padding_height - 2; }
  std::int64_t out_width() const { return width + 2 * padding_width - 2; }
  std::int64_t tiles_high() const { return (out_height() + 1) / 2; }
  std::int64_t tiles_wide() const { return (out_width() + 1) / 2; }
  std::int64_t tiles() const { return samples * tiles_high() * tiles_wide(); }
};

/// Tiles [begin, end) of a block of `count` from tile `first` on, whose transformed tiles lie together, [16, count, channels]: a row of tiles after the other, one sample after the other.
struct TilePart {
  std::int64_t first, count, begin, end;
};

/// B' d B of what they see, 0 where there is padding; `to`: the block's.
void winograd_see(const WinogradTiles& tiles, const TilePart& part, std::int64_t channels, const float* maps, float* to);
void winograd_see(const WinogradTiles& tiles, const TilePart& part, std::int64_t channels, const double* maps, double* to);
void winograd_see(const WinogradTiles& tiles, const TilePart& part, std::int64_t channels, const Bf16* maps, Bf16* to);
/// A dy A' of the gradient of the output, 0 beyond its edge.
void winograd_spread(const WinogradTiles& tiles, const TilePart& part, std::int64_t channels, const float* gradient, float* to);
void winograd_spread(const WinogradTiles& tiles, const TilePart& part, std::int64_t channels, const double* gradient, double* to);
void winograd_spread(const WinogradTiles& tiles, const TilePart& part, std::int64_t channels, const Bf16* gradient, Bf16* to);
/// The output, A' m A of the block's products; plus bias [channels] where given; `rectifies`: 0 where that is less.
void winograd_gather(const WinogradTiles& tiles, const TilePart& part, std::int64_t channels, const float* products, const float* bias, bool rectifies, float* out);
void winograd_gather(const WinogradTiles& tiles, const TilePart& part, std::int64_t channels, const double* products, const double* bias, bool rectifies, double* out);
void winograd_gather(const WinogradTiles& tiles, const TilePart& part, std::int64_t channels, const Bf16* products, const float* bias, bool rectifies, Bf16* out);

/// Channels [begin, end) of `out`.
struct ChannelPart {
  std::int64_t out, in, begin, end;
};

/// G g G' of weights [out, 3, 3, in]; `to`: [16, out, in]. `turned`: of windows turned by half a turn.
void winograd_weights(const ChannelPart& part, const float* weights, bool turned, float* to);
void winograd_weights(const ChannelPart& part, const double* weights, bool turned, double* to);
void winograd_weights(const ChannelPart& part, const float* weights, bool turned, Bf16* to);
/// G' x G of products [16, out, in]: the gradient of weights, added to what is there where `adds`.
void winograd_weight_gradient(const ChannelPart& part, const float* products, bool adds, float* gradient);
void winograd_weight_gradient(const ChannelPart& part, const double* products, bool adds, double* gradient);

}  // namespace ddl
