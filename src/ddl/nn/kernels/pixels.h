#pragma once

#include <cstdint>

namespace ddl {

/// Images of three planes, one after the other, as images of pixels: planes [samples, 3, places] to pixels [samples, places, 3]. ATen's copy between both goes over the three elements of a pixel at a time.
void interleave_three(const float* planes, std::int64_t samples, std::int64_t places, float* pixels);

}  // namespace ddl
