#include "ddl/nn/kernels/pixels.h"

#include "ddl/core/clones.h"

namespace ddl {

DDL_CLONES void interleave_three(const float* planes, std::int64_t samples, std::int64_t places, float* pixels) {
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    const float* const __restrict red = planes + 3 * sample * places;
    const float* const __restrict green = red + places;
    const float* const __restrict blue = green + places;
    float* const __restrict to = pixels + 3 * sample * places;
    for (std::int64_t p = 0; p < places; ++p) {
      to[3 * p] = red[p];
      to[3 * p + 1] = green[p];
      to[3 * p + 2] = blue[p];
    }
  }
}

}  // namespace ddl
