#pragma once

#include <cstdint>

#include "ddl/core/bf16.h"

namespace ddl {

// Batch norm, with what follows it: of maps that lie channels last, [rows, channels], where rows are all pixels of a batch. In types narrower than fp64 sums over rows are of at most kRowsAtOnce
// elements, which are put together in fp64. Of maps in bf16 everything else is in fp32, and rounded when it is stored.

/// What a channel is multiplied by, and what is then added.
template <typename T>
struct ChannelScales {
  const Wide<T> *factor, *shift;
};

/// Of channels [first, last): means, and sums of squared deviations from them.
void channel_moments(const float* maps, std::int64_t rows, std::int64_t channels, std::int64_t first, std::int64_t last, double* mean, double* squares);
void channel_moments(const double* maps, std::int64_t rows, std::int64_t channels, std::int64_t first, std::int64_t last, double* mean, double* squares);
void channel_moments(const Bf16* maps, std::int64_t rows, std::int64_t channels, std::int64_t first, std::int64_t last, double* mean, double* squares);

/// out = maps * factor + shift, plus `added` where that is given; then, where `activates`, at least 0 and at most `most`. Of rows [first, last). NaN stays NaN.
template <typename T>
struct Normalise {
  ChannelScales<T> scales;
  const T* added;   ///< [rows, channels], or null
  bool activates;
  Wide<T> most;     ///< infinity for ReLU
};
void normalise_rows(const float* maps, float* out, std::int64_t channels, std::int64_t first, std::int64_t last, const Normalise<float>& how);
void normalise_rows(const double* maps, double* out, std::int64_t channels, std::int64_t first, std::int64_t last, const Normalise<double>& how);
void normalise_rows(const Bf16* maps, Bf16* out, std::int64_t channels, std::int64_t first, std::int64_t last, const Normalise<Bf16>& how);

/// Backward passes. `gradient` is that of the output; it counts where the output was strictly between 0 and `most`, or everywhere where nothing activates. The output is `out`, or, where that is null, it is
/// computed again from maps.
template <typename T>
struct NormaliseBackward {
  ChannelScales<T> scales;
  const T *maps, *out, *gradient;
  bool activates;
  Wide<T> most;
};
/// Of channels [first, last), sums over rows of the gradient that counts, and of its products with the deviations of maps from `mean`. To `passed`, where given, that gradient;
/// then `how` activates and has its output.
void gradient_moments(const NormaliseBackward<float>& how, std::int64_t rows, std::int64_t channels, std::int64_t first, std::int64_t last, const float* mean, float* passed, double* sum, double* product);
void gradient_moments(const NormaliseBackward<double>& how, std::int64_t rows, std::int64_t channels, std::int64_t first, std::int64_t last, const double* mean, double* passed, double* sum, double* product);
void gradient_moments(const NormaliseBackward<Bf16>& how, std::int64_t rows, std::int64_t channels, std::int64_t first, std::int64_t last, const float* mean, Bf16* passed, double* sum, double* product);
/// The gradient of maps, of rows [first, last): factor * (gradient - offset - (maps - mean) * slope).
template <typename T>
struct Projection {
  const Wide<T> *mean, *offset, *slope;
};
void project_gradient(const NormaliseBackward<float>& how, std::int64_t channels, std::int64_t first, std::int64_t last, const Projection<float>& projection, float* of_maps);
void project_gradient(const NormaliseBackward<double>& how, std::int64_t channels, std::int64_t first, std::int64_t last, const Projection<double>& projection, double* of_maps);
void project_gradient(const NormaliseBackward<Bf16>& how, std::int64_t channels, std::int64_t first, std::int64_t last, const Projection<Bf16>& projection, Bf16* of_maps);

/// Where work is divided among threads, by multiples of so many channels.
inline constexpr std::int64_t kChannelsAtOnce = 64;
inline constexpr std::int64_t kRowsAtOnce = 64;

}  // namespace ddl
