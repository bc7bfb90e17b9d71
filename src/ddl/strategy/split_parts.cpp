#include "ddl/strategy/split_parts.h"

#include <algorithm>
#include <map>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/nn/split/layout.h"

namespace ddl {
namespace {

ModelGraph part_of_network(const Plan& plan, const ModelGraph& whole, int part) {
  return split_graph(whole, split_options({"tensor", {{"split", plan.split}}}), part, plan.mesh.size("tensor"));
}

std::int64_t largest(const std::vector<Ranges>& parts) {
  std::int64_t most = 0;
  for (const auto& ranges : parts) most = std::max(most, size_of(ranges));
  return most;
}

/// One range of a part.
struct Piece {
  std::int64_t begin = 0, end = 0;
  std::size_t part = 0;
};

/// Of all parts, by where they begin.
std::vector<Piece> pieces_of(const std::vector<Ranges>& parts) {
  std::vector<Piece> pieces;
  for (std::size_t part = 0; part < parts.size(); ++part)
    for (const auto& [begin, end] : parts[part]) pieces.push_back({begin, end, part});
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
  return pieces;
}

/// Of a part of `from` with another of `to`. Looks at neighbours alone: all pairs of thousands of parts take seconds.
std::int64_t largest_overlap(const std::vector<Ranges>& from, const std::vector<Ranges>& to) {
  const auto theirs = pieces_of(to);
  std::int64_t longest = 0, most = 0;
  for (const auto& piece : theirs) longest = std::max(longest, piece.end - piece.begin);
  for (std::size_t part = 0; part < from.size(); ++part) {
    std::map<std::size_t, std::int64_t> shared;  // by part of `to`
    for (const auto& [begin, end] : from[part]) {
      const auto first = std::partition_point(theirs.begin(), theirs.end(), [&, begin = begin](const Piece& piece) { return piece.begin + longest <= begin; });
      for (auto piece = first; piece != theirs.end() && piece->begin < end; ++piece)
        if (piece->part != part) most = std::max(most, shared[piece->part] += std::max<std::int64_t>(0, std::min(end, piece->end) - std::max(begin, piece->begin)));
    }
  }
  return most;
}

}  // namespace

StrategyInput of_part(const StrategyInput& input, const ModelGraph& part) {
  StrategyInput of{part, input.workers, input.batch, input.element_bytes, input.spec, input.gradient_order, input.micro_batches};
  of.optimizer_tensors = input.optimizer_tensors;
  of.whole_gradient = input.whole_gradient;
  of.channels_last = input.channels_last;
  of.parameter_norms = input.parameter_norms;
  of.recompute = input.recompute;
  of.whole_gradient_word = input.whole_gradient_word;
  of.optimizer_word = input.optimizer_word;
  return of;
}

SplitOptions split_by_options(const StrategyInput& input) {
  auto spec = input.spec;
  const auto& layers = input.graph.layers;
  const bool attends = std::any_of(layers.begin(), layers.end(), [](const Layer& layer) { return layer.kind == LayerKind::attention; });
  spec.options.emplace("split", attends ? "megatron" : "channels");
  return split_options(spec);
}

void require_whole_norms(const StrategyInput& input, int parts) {
  if (parts > 1 && input.parameter_norms)
    throw Error(Code::unsupported, fmt::format("[{}] unsupported: an optimizer that reads norms of whole parameters, which are in pieces on {} workers; got {}, expected sgd, adam or "
                                               "adamw, or strategy data, pipeline or sharded with it", input.spec.name, parts, input.optimizer_word));
}

std::string split_words(const SplitOptions& options) {
  std::vector<std::string> words;
  for (const auto dimension : options.dimensions) words.emplace_back(name(dimension));
  return join(words, "+");
}

ModelGraph graph_of(const Plan& plan, const ModelGraph& whole, int worker) {
  return plan.split.empty() ? whole : part_of_network(plan, whole, plan.mesh.coordinate("tensor", worker));
}

std::vector<ModelGraph> parts_of(const Plan& plan, const ModelGraph& whole) {
  if (plan.split.empty()) return {whole};
  std::vector<ModelGraph> parts;
  for (int part = 0; part < plan.mesh.size("tensor"); ++part) parts.push_back(part_of_network(plan, whole, part));
  return parts;
}

Goal goal_of(Move move) {
  switch (move) {
    case Move::all_reduce: return Goal::all_reduce;
    case Move::all_gather: return Goal::all_gather;
    case Move::reduce_scatter: return Goal::reduce_scatter;
    case Move::halo:
    case Move::halo_add: return Goal::all_to_all;
    case Move::none:
    case Move::slice: break;
  }
  invariant(false, "only moves between parts are collectives");
  return Goal::barrier;
}

MoveBuffer move_buffer(const PartExchange& how, bool forward, int parts) {
  const auto move = forward ? how.forward : how.backward;
  const auto& from = forward ? how.before : how.after;
  const auto& to = forward ? how.after : how.before;
  const auto all = elements_of(how.whole);
  const auto per_index = all / std::max<std::int64_t>(1, how.whole[static_cast<std::size_t>(how.dimension)]);
  switch (move) {
    case Move::all_reduce: return {all, 1};
    case Move::all_gather: return {largest(from) * per_index, parts};
    case Move::reduce_scatter: return {largest(to) * per_index, parts};
    case Move::halo:
    case Move::halo_add: return {largest_overlap(from, to) * per_index, parts};
    case Move::none:
    case Move::slice: break;
  }
  return {0, 1};
}

}  // namespace ddl
