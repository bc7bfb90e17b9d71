#include "ddl/strategy/split_parts.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <utility>

#include <fmt/ranges.h>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/nn/split/layout.h"

namespace ddl {
namespace {

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
  of.own_kernels = input.own_kernels;
  of.mixed = input.mixed;
  of.widens = input.widens;
  of.threads = input.threads;
  of.parameter_norms = input.parameter_norms;
  of.recompute = input.recompute;
  of.whole_gradient_word = input.whole_gradient_word;
  of.optimizer_word = input.optimizer_word;
  return of;
}

int product(const std::vector<int>& sizes) {
  int all = 1;
  for (const int size : sizes) all *= size;
  return all;
}

std::vector<int> mesh_option(const Spec& spec, const std::string& option) {
  constexpr int kMost = 1 << 20;
  std::vector<int> sizes;
  for (const auto& word : split(spec.options.at(option), 'x')) {
    int size = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), size);
    if (error != std::errc() || end != word.data() + word.size() || size < 1 || size > kMost / product(sizes))
      throw Error(Code::invalid_argument, fmt::format("[{}] {}; got '{}', expected a whole number from 1 to {}, or of several axes one each, as 2x3", spec.name, option, spec.options.at(option), kMost));
    sizes.push_back(size);
  }
  return sizes;
}

std::string meshes_for(int workers, std::size_t axes) {
  constexpr std::size_t kMost = 8;
  std::vector<std::string> all;
  const std::function<void(const std::string&, int, std::size_t)> add = [&](const std::string& before, int left, std::size_t more) {
    if (more == 1) all.push_back(before + std::to_string(left));
    for (int size = 1; more > 1 && size <= left && all.size() < kMost; ++size)
      if (left % size == 0) add(before + std::to_string(size) + "x", left / size, more - 1);
  };
  add("", workers, axes);
  return join(all, ", ");
}

std::vector<SplitAxis> split_by_options(const StrategyInput& input, const std::vector<int>& sizes, const char* mesh_word) {
  auto spec = input.spec;
  const auto& layers = input.graph.layers;
  const bool attends = std::any_of(layers.begin(), layers.end(), [](const Layer& layer) { return layer.kind == LayerKind::attention; });
  spec.options.emplace("split", attends ? "megatron" : "channels");
  const auto options = split_options(spec);
  if (options.size() != sizes.size())
    throw Error(Code::invalid_argument, fmt::format("[{}] each axis that a network is split over has dimensions of its own; got {} of {} with split={}, which are dimensions of {}, expected {}={}, or as "
                                                    "many dimensions, as split={}", spec.name, mesh_word, fmt::join(sizes, "x"), spec.options.at("split"), options.size(), mesh_word,
                                                    meshes_for(product(sizes), options.size()), sizes.size() == 1 ? "height" : attends ? "megatron/sequence" : "height/channels"));
  std::vector<SplitAxis> axes;
  for (std::size_t i = 0; i < sizes.size(); ++i) axes.push_back({options[i], sizes[i]});
  return axes;
}

std::string split_words(const std::vector<SplitAxis>& axes) {
  std::vector<SplitOptions> options;
  for (const auto& axis : axes) options.push_back(axis.options);
  return words_of(options);
}

std::vector<SplitAxis> axes_of(const Plan& plan) {
  std::vector<SplitAxis> axes;
  if (plan.split.empty()) return axes;
  const auto sizes = plan.part_axes();
  for (auto& options : split_from_words(plan.split)) axes.push_back({std::move(options), sizes.at(axes.size())});
  return axes;
}

ModelGraph graph_of(const Plan& plan, const ModelGraph& whole, int worker) {
  return plan.split.empty() ? whole : split_graph(whole, axes_of(plan), plan.part_of(worker));
}

std::vector<ModelGraph> parts_of(const Plan& plan, const ModelGraph& whole) {
  if (plan.split.empty()) return {whole};
  std::vector<ModelGraph> parts;
  for (int part = 0; part < plan.parts(); ++part) parts.push_back(split_graph(whole, axes_of(plan), part));
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

MoveBuffer move_buffer(const PartExchange& how, bool forward) {
  const auto move = forward ? how.forward : how.backward;
  const auto& from = forward ? how.before : how.after;
  const auto& to = forward ? how.after : how.before;
  const auto all = elements_of(how.whole);
  const auto per_index = all / std::max<std::int64_t>(1, how.whole[static_cast<std::size_t>(how.dimension)]);
  switch (move) {
    case Move::all_reduce: return {all, 1};
    case Move::all_gather: return {largest(from) * per_index, how.parts};
    case Move::reduce_scatter: return {largest(to) * per_index, how.parts};
    case Move::halo:
    case Move::halo_add: return {largest_overlap(from, to) * per_index, how.parts};
    case Move::none:
    case Move::slice: break;
  }
  return {0, 1};
}

}  // namespace ddl
