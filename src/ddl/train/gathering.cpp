#include "ddl/train/gathering.h"

#include <cstring>

#include <ATen/Parallel.h>

#include "ddl/nn/operators/look_up.h"

namespace ddl {
namespace {

/// Bytes from which several threads copy faster than one.
constexpr std::size_t kWorthThreads = std::size_t{256} << 10;

}  // namespace

std::int64_t gather_gradient(const at::Tensor& gradient, at::Tensor& place, bool adds) {
  const auto bytes = static_cast<std::int64_t>(gradient.is_sparse() && adds ? gradient._values().nbytes() : place.nbytes());
  if (gradient.is_sparse()) {
    put_rows(gradient, place, adds);
  } else if (adds) {
    place.add_(gradient);
  } else if (gradient.strides() == place.strides() && place.is_cpu() && (at::get_num_threads() == 1 || place.nbytes() < kWorthThreads)) {
    std::memcpy(place.data_ptr(), gradient.const_data_ptr(), place.nbytes());
  } else {
    place.copy_(gradient);
  }
  return bytes;
}

}  // namespace ddl
