#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ddl/nn/graph.h"

namespace ddl {

// What nodes of other people's execution traces are called, and which layer of a network they are.

enum class LayerPass : std::uint8_t { forward, backward, backward_input, backward_weight };

struct NamedLayer {
  std::string layer;
  LayerPass pass = LayerPass::forward;
};
/// `conv1 forward`, `conv1 backward`, and as Chakra's own text converter writes it: `COMP_NODE_conv1_FWD`, `_BWD_IG` or `_IG` (input's gradient), `_BWD_WG` or `_WG` (weight's).
std::optional<NamedLayer> layer_named(const std::string& node);

/// PyTorch's operators that such a layer is run by, from the outermost to the innermost: of nested ones a trace has all, and one of them counts. Empty: nothing is run.
struct OperatorNames {
  std::vector<std::string> forward, backward;
};
OperatorNames operators_of(LayerKind kind);
OperatorNames operators_of_loss();
/// Whether a network may have such layers without any operator of theirs in a trace: they take next to nothing, or are another view of the same memory.
bool may_be_untold(LayerKind kind);

/// Of a collective's `comm_type` (et_def.proto, CollectiveCommType); empty for a number that there is none of.
std::string collective_of_chakra(int type);

}  // namespace ddl
