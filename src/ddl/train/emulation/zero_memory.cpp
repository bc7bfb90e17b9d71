#include "ddl/train/emulation/zero_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace ddl {

ZeroMemory::~ZeroMemory() {
  for (const auto& block : blocks_) ::munmap(block.data, block.bytes);
}

at::Tensor ZeroMemory::tensor(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type, bool resident) {
  const auto bytes = std::max<std::size_t>(1, at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(type)));
  if (blocks_.empty() || blocks_.back().bytes < bytes) {
    const auto twice = blocks_.empty() || resident ? bytes : std::max(bytes, 2 * blocks_.back().bytes);
    auto* const data = ::mmap(nullptr, twice, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) throw std::bad_alloc();
    blocks_.push_back({static_cast<std::byte*>(data), twice});
    if (resident) std::memset(data, 0, twice);
  }
  return at::from_blob(blocks_.back().data, sizes, strides, at::TensorOptions(type));
}

}  // namespace ddl
