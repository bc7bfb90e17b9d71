#pragma once

#include <cstddef>
#include <vector>

#include <ATen/ATen.h>

namespace ddl {

/// One block of zeros that any number of tensors lie over, however large: their values mean nothing, and nobody reads or writes them. It takes no memory until somebody does. Writing zeros does
/// no harm.
/// Threads: one.
class ZeroMemory {
 public:
  ZeroMemory() = default;
  ~ZeroMemory();
  ZeroMemory(const ZeroMemory&) = delete;
  ZeroMemory& operator=(const ZeroMemory&) = delete;

  /// Lives no longer than this. `resident`: the block is there, each page its own, as memory is that messages are sent from.
  at::Tensor tensor(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type, bool resident = false);

 private:
  struct Block {
    std::byte* data;
    std::size_t bytes;
  };
  std::vector<Block> blocks_;  ///< the last is the largest; earlier ones may be in use still
};

}  // namespace ddl
