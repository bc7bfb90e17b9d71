#pragma once

#include <algorithm>
#include <cstdint>

#include <ATen/Parallel.h>

namespace ddl {

/// What is worth a thread: a pass over fewer elements is done about as soon as another thread has been woken for it (ATen's grain).
inline constexpr std::int64_t kElementsOfAThread = 32768;

/// `f(begin, end)` for parts of [0, count), by as many of the threads that compute here as have work enough; one of count is a pass over `each` elements. In other threads than this one no guard of ATen's holds, so that `f` reads and
/// writes memory and asks for none. The parts are as many as threads: what is computed of one must not depend on where it begins.
template <typename F>
void share_out(std::int64_t count, std::int64_t each, F&& f) {
  at::parallel_for(0, count, std::max<std::int64_t>(1, kElementsOfAThread / std::max<std::int64_t>(1, each)), f);
}

}  // namespace ddl
