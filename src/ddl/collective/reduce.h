#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ddl/core/element.h"
#include "ddl/core/error.h"

namespace ddl {

// What a processor does to elements: vectors through Highway, in the widest form that this processor has. Ranges may
// have any alignment and must not overlap. fp16 and bf16 are computed in fp32 and rounded to nearest when stored. Sums of
// integers wrap around, averages of integers are rounded towards zero; max and min of a NaN and anything are NaN, so that
// no rank hides one, which NaN being left to the processor. Products are rounded before they are added, so that a*x + b*y has the same bits as b*y + a*x.

/// What happens to elements besides the operation.
struct Scaling {
  double ours = 1;
  double theirs = 1;
  std::int64_t divisor = 1;  ///< of the result
};

/// ours[i] = op(ours[i] * scaling.ours, theirs[i] * scaling.theirs) / scaling.divisor. Factors are for types of floating
/// point; where one is not 1, each product is rounded to the type.
void reduce_into(ReduceOp op, ElementType type, std::byte* ours, const std::byte* theirs, std::size_t elements,
                 const Scaling& scaling = {});

/// The reduction of places[0], places[1], … in that order, in one pass, written to all of them. fp16 and bf16 are rounded
/// once, at its end. `factors`: one of each, or null for ones.
void reduce_all(ReduceOp op, ElementType type, std::byte* const* places, const double* factors, int count, std::size_t elements,
                std::int64_t divisor);

/// into[i] = from[i] * factor / divisor; `into` may be `from`.
void scale_into(ElementType type, std::byte* into, const std::byte* from, std::size_t elements, double factor,
                std::int64_t divisor = 1);

/// into[i] = from[i], rounded to nearest even; `half` is fp16, which is infinite from 65,520 on, or bf16.
void narrow(ElementType half, std::byte* into, const float* from, std::size_t elements);
/// Back, exactly.
void widen(ElementType half, float* into, const std::byte* from, std::size_t elements);

/// The sets of vector instructions that this binary has code for and this processor can run, the one in use first, by
/// Highway's names.
std::vector<std::string> vector_targets();
/// Has all threads use that one from their next call on, so that tests reach each; empty: the best again.
/// Errors: invalid_argument.
void use_vector_target(std::string_view target);

}  // namespace ddl
