#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ddl {

/// What a number of a tensor or a collective's buffer is. Their numbers are part of the wire format.
enum class ElementType : std::uint8_t { fp32, fp64, bf16, fp16, int32, int64 };
inline constexpr ElementType kElementTypes[] = {ElementType::fp32, ElementType::fp64,  ElementType::bf16,
                                                ElementType::fp16, ElementType::int32, ElementType::int64};

/// Bytes of one.
std::size_t size_of(ElementType type);
std::string_view name(ElementType type);
/// Errors: invalid_argument on a word that is none of them.
ElementType element_type_from_name(std::string_view word);

/// How the ranks' elements become one. Their numbers are part of the wire format.
enum class ReduceOp : std::uint8_t { sum, average, max, min, weighted_sum };
inline constexpr ReduceOp kReduceOps[] = {ReduceOp::sum, ReduceOp::average, ReduceOp::max, ReduceOp::min,
                                          ReduceOp::weighted_sum};
std::string_view name(ReduceOp op);
/// Errors: invalid_argument on a word that is none of them.
ReduceOp reduce_op_from_name(std::string_view word);

}  // namespace ddl
