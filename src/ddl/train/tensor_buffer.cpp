#include "ddl/train/tensor_buffer.h"

#include "ddl/core/error.h"

namespace ddl {

ElementType element_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat: return ElementType::fp32;
    case at::kDouble: return ElementType::fp64;
    case at::kBFloat16: return ElementType::bf16;
    case at::kHalf: return ElementType::fp16;
    default: throw Error(Code::unsupported, fmt::format("[executor] unsupported: a message of {}", c10::toString(type)));
  }
}

ElementType parameter_type(const at::Tensor& parameter) {
  const auto type = parameter.scalar_type();
  if (type == at::kFloat || type == at::kDouble) return element_type(type);
  throw Error(Code::unsupported, fmt::format("[executor] unsupported element type of a parameter; got {}, expected fp32 or fp64", c10::toString(type)));
}

Buffer buffer_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), static_cast<std::size_t>(tensor.numel()), element_type(tensor.scalar_type())};
}

}  // namespace ddl
