#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ddl/nn/split/split.h"
#include "ddl/plan/plan.h"
#include "ddl/strategy/builtin.h"

namespace ddl {

/// The input of a strategy that plans for one part of the network, which outlives it. What was measured of whole layers is left out.
StrategyInput of_part(const StrategyInput& input, const ModelGraph& part);
/// As the options split and sequence say; without a word, megatron for networks that have attention, else channels. Over axes of these sizes, which option
/// `mesh_word` says. Errors: invalid_argument where those are not as many.
std::vector<SplitAxis> split_by_options(const StrategyInput& input, const std::vector<int>& sizes, const char* mesh_word);
/// Sizes of a mesh in a user's words: "4", "2x3"; and how many places it has. Errors: invalid_argument.
int product(const std::vector<int>& sizes);
std::vector<int> mesh_option(const Spec& spec, const std::string& option);
/// "1x6, 2x3, 3x2, 6x1": all meshes of so many axes for so many workers; the first of them where there are many.
std::string meshes_for(int workers, std::size_t axes);

/// Plan::split of these axes, and the axes of a plan.
std::string split_words(const std::vector<SplitAxis>& axes);
std::vector<SplitAxis> axes_of(const Plan& plan);

/// The network that a worker of the plan computes: the whole one, or its part where layers are split.
ModelGraph graph_of(const Plan& plan, const ModelGraph& whole, int worker);
/// All parts, or the whole network alone.
std::vector<ModelGraph> parts_of(const Plan& plan, const ModelGraph& whole);

/// The collective that does a move between parts. Neighbours' rows (halo) go by all-to-all, where most pieces are empty: that is two rounds of a few
/// rows, whoever the neighbours are.
Goal goal_of(Move move);

/// How a move lies in the collective's buffer: a slot for each part, as large as the largest needs, or for all_reduce one for all. Elements, for one sample or batch.
struct MoveBuffer {
  std::int64_t slot = 0;
  int slots = 1;
  std::int64_t elements() const { return slot * slots; }
};
/// `forward`: the exchange's forward move; else its backward one, of the gradient.
MoveBuffer move_buffer(const PartExchange& how, bool forward);

}  // namespace ddl
