#include "ddl/nn/split/moves.h"

#include <algorithm>
#include <iterator>

#include "ddl/core/error.h"

namespace ddl {
namespace {

using Kind = Layout::Kind;

Layout dual(const Layout& layout) {
  if (layout.kind == Kind::shared) return Layout::partial();
  if (layout.kind == Kind::partial) return Layout::shared();
  return layout;
}

Move move_between(const Layout& before, const Layout& after) {
  const bool from_pieces = before.is_split(), to_pieces = after.is_split();
  if (before.kind == Kind::partial) return to_pieces ? Move::reduce_scatter : after.kind == Kind::partial ? Move::none : Move::all_reduce;
  if (from_pieces && to_pieces) return overlaps(before.parts) ? Move::halo_add : Move::halo;
  if (from_pieces) return Move::all_gather;
  return to_pieces ? Move::slice : Move::none;
}

/// What a part receives. All-reduce is a reduce-scatter and an all-gather, cut evenly.
std::int64_t received(Move move, const Layout& before, const Layout& after, const std::vector<std::int64_t>& shape, int part, int parts) {
  const auto all = elements_of(shape);
  const auto per_index = [&](const Layout& layout) { return all / std::max<std::int64_t>(1, shape[static_cast<std::size_t>(layout.dimension)]); };
  const auto of = [](const Layout& layout, int p) -> const Ranges& { return layout.parts[static_cast<std::size_t>(p)]; };
  const auto mine = [&](const Layout& layout) { return size_of(of(layout, part)) * per_index(layout); };
  switch (move) {
    case Move::none:
    case Move::slice: return 0;
    case Move::all_reduce: {
      const auto own = size_of(cut_evenly(all, parts)[static_cast<std::size_t>(part)]);
      return (parts - 1) * own + all - own;
    }
    case Move::all_gather: return all - mine(before);
    case Move::reduce_scatter: return (parts - 1) * mine(after);
    case Move::halo: return (size_of(of(after, part)) - overlap(of(after, part), of(before, part))) * per_index(after);
    case Move::halo_add: {
      std::int64_t from_others = 0;
      for (int other = 0; other < parts; ++other)
        if (other != part) from_others += overlap(of(before, other), of(after, part));
      return from_others * per_index(after);
    }
  }
  return 0;
}

}  // namespace

bool overlaps(const std::vector<Ranges>& parts) {
  // In the order in which they begin, so that thousands of parts are not held against each other.
  Ranges all;
  for (const auto& ranges : parts) std::copy_if(ranges.begin(), ranges.end(), std::back_inserter(all), [](const IndexRange& range) { return range.size() > 0; });
  std::sort(all.begin(), all.end(), [](const IndexRange& a, const IndexRange& b) { return a.begin < b.begin; });
  return std::adjacent_find(all.begin(), all.end(), [](const IndexRange& a, const IndexRange& b) { return b.begin < a.end; }) != all.end();
}

PartExchange exchange_between(const Layout& before, const Layout& after, const std::vector<std::int64_t>& shape, int part, int parts, bool learns, bool per_batch) {
  PartExchange how;
  how.forward = move_between(before, after);
  how.dimension = after.is_split() ? after.dimension : before.dimension;
  invariant(!before.is_split() || !after.is_split() || before.dimension == after.dimension, "pieces stay along one dimension");
  how.whole = shape;
  how.before = before.parts;
  how.after = after.parts;
  how.per_batch = per_batch;
  how.forward_elements = received(how.forward, before, after, shape, part, parts);
  if (learns) {
    // A gradient comes back from what may overlap to what does not.
    how.backward = how.forward == Move::halo ? Move::halo_add : move_between(dual(after), dual(before));
    how.backward_elements = received(how.backward, dual(after), dual(before), shape, part, parts);
  }
  return how;
}

std::string_view word_of(const PartExchange& how) {
  switch (how.forward) {
    case Move::none: return "copy";
    case Move::all_reduce: return "all_reduce";
    case Move::all_gather: return how.backward == Move::reduce_scatter ? "gather_shared" : "gather";
    case Move::reduce_scatter: return "reduce_scatter";
    case Move::slice: return "slice";
    case Move::halo:
    case Move::halo_add: return "halo";
  }
  return "";
}

}  // namespace ddl
