#pragma once

#include "ddl/nn/kernels/windows.h"
#include "ddl/nn/threads.h"

namespace ddl {

/// `f(some, map, place)` for some of the samples, by all threads: their windows, where the first element of their maps is, and the number of their first place.
template <typename F>
void for_samples(const Windows& all, F&& f) {
  const auto map = all.height * all.width * all.channels, places = all.places_high * all.places_wide;
  share_out(all.samples, places * all.seen(), [&](std::int64_t begin, std::int64_t end) {
    auto some = all;
    some.samples = end - begin;
    f(some, begin * map, begin * places);
  });
}

}  // namespace ddl
