#pragma once

#include <map>
#include <vector>

#include "ddl/nn/graph.h"
#include "ddl/plan/plan.h"

namespace ddl {

/// Values that layers of one stage make and a later one reads. Inputs are not among them: every stage takes those from its own batch. The
/// auxiliary output is read by the last stage, for the loss.
struct Crossing {
  int from = 0, to = 0;
  std::vector<int> layers = {};   ///< whose outputs they are, ascending
  std::vector<bool> learns = {};  ///< whether a gradient goes back
};

/// `cuts`: the first layer of each stage, ascending, beginning with 0. A parameter belongs to every stage that uses it.
/// Errors: invalid_argument where cuts do not ascend within the network.
std::vector<Stage> make_stages(const ModelGraph& graph, const std::vector<int>& cuts);

/// Parameters that several stages use, and those stages, ascending. Each has a copy; their gradients must be summed.
std::map<int, std::vector<int>> shared_parameters(const std::vector<Stage>& stages);

/// Of every pair of stages that has any, by `from`, then `to`.
std::vector<Crossing> crossings(const ModelGraph& graph, const std::vector<Stage>& stages);

/// Bytes of a crossing for so many samples. `element_bytes`: by layer, of what it makes (ValueWidths).
std::int64_t bytes_of(const ModelGraph& graph, const Crossing& crossing, std::int64_t samples, const std::vector<std::int64_t>& element_bytes);

/// Input layers that a stage reads, be they in it or not.
std::vector<int> inputs_of(const ModelGraph& graph, const Stage& stage);

/// Whether a stage needs something of the batch: an input, or, being the last, what the answers are measured against.
bool needs_batch(const ModelGraph& graph, const std::vector<Stage>& stages, int stage);

/// The number of each layer's first parameter among those that train.
std::vector<int> first_parameters(const ModelGraph& graph);
/// Of layers [begin, end), the numbers of the parameters that they use, each once, ascending: their own that train, and borrowed ones. `first`: first_parameters().
std::vector<int> parameters_used(const ModelGraph& graph, const std::vector<int>& first, int begin, int end);

/// Forward, one sample.
std::int64_t flops_of(const ModelGraph& graph, const Stage& stage);
std::int64_t kept_elements_of(const ModelGraph& graph, const Stage& stage);
/// Elements of the parameters that do not train.
std::int64_t frozen_parameters_of(const ModelGraph& graph, const Stage& stage);

}  // namespace ddl
