#include "ddl/train/held_memory.h"

#include <malloc.h>

#include "ddl/train/allocator.h"

namespace ddl {

std::int64_t heap_in_use() {
  const auto info = ::mallinfo2();
  return static_cast<std::int64_t>(info.uordblks + info.hblkhd);
}

void HeldMemory::after_step(std::int64_t step) {
  if (const auto held = allocator_use().held; held > held_) {
    held_ = held;
    since_ = step;
    ++asked_;
  }
  if (step + 1 == steps_ / 2) {
    held_middle_ = held_;
    heap_middle_ = heap_in_use();
  }
  if (step + 1 == steps_) heap_end_ = heap_in_use();
}

Json HeldMemory::json() const {
  const auto known = [](std::int64_t bytes) { return bytes < 0 ? Json(nullptr) : Json(bytes); };
  return {{"held", held_}, {"held_middle", known(held_middle_)}, {"held_since_step", since_}, {"held_steps", asked_}, {"heap_middle", known(heap_middle_)}, {"heap_end", known(heap_end_)}};
}

}  // namespace ddl
