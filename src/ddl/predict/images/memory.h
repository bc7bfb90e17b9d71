#pragma once

#include <string>
#include <vector>

#include "ddl/core/json.h"
#include "ddl/predict/images/operators.h"

namespace ddl {

/// What training convolutional networks holds on a device beside what is counted: "images.memory" of a `ddlbench.kernels/1`.
struct ImageMemoryTerms {
  double state_bytes = 0;        ///< of each parameter: itself, its gradient, and what the optimizer keeps
  double overhead = 1;           ///< of what is kept for backward, by the allocator's rounding and holes
  double activations_made = 0;   ///< of the largest value, while backward is at it
  double weights_made = 0;       ///< of the largest tensor of parameters: its gradient in the making, and a kernel's workspace for it
  double context = 0;            ///< bytes that the driver takes, and nobody's allocator counts
};
/// Of a network by that name: packages may train theirs by an optimizer that keeps more, or less.
ImageMemoryTerms image_memory_terms(const Json& kernels, const Json& stack, const std::string& model);

/// Elements of a sample that stay from forward to backward: what convolutions, linear layers, norms and pooling were given, and where a maximum was. ReLUs write over what they are given.
double kept_of(const ImageOperators& operators);

/// One device's part of a step.
struct ImagePart {
  const ImageOperators& operators;
  double samples = 0;       ///< that are in flight at once with all that backward wants
  double given = 0;         ///< elements besides, of micro-batches whose forward is run again: what came in
  double value_bytes = 4;   ///< of an element that layers pass on
};

/// Bytes at the peak, the context not counted: what PyTorch's allocator would say it has reserved.
double image_memory(const ImagePart& part, const ImageMemoryTerms& terms);

}  // namespace ddl
