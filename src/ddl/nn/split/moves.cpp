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

/// What a part receives of a move from `before` to `after`. All-reduce is a reduce-scatter and an all-gather, cut evenly.
std::int64_t received(const PartExchange& how, Move move, const std::vector<Ranges>& before, const std::vector<Ranges>& after) {
  const auto all = elements_of(how.whole), per_index = all / std::max<std::int64_t>(1, how.whole[static_cast<std::size_t>(how.dimension)]);
  const int part = how.part, parts = how.parts;
  const auto of = [](const std::vector<Ranges>& pieces, int p) -> const Ranges& { return pieces[static_cast<std::size_t>(p)]; };
  const auto mine = [&](const std::vector<Ranges>& pieces) { return size_of(of(pieces, part)) * per_index; };
  switch (move) {
    case Move::none:
    case Move::slice: return 0;
    case Move::all_reduce: {
      const auto own = size_of(cut_evenly(all, parts)[static_cast<std::size_t>(part)]);
      return (parts - 1) * own + all - own;
    }
    case Move::all_gather: return all - mine(before);
    case Move::reduce_scatter: return (parts - 1) * mine(after);
    case Move::halo: return (size_of(of(after, part)) - overlap(of(after, part), of(before, part))) * per_index;
    case Move::halo_add: {
      std::int64_t from_others = 0;
      for (int other = 0; other < parts; ++other)
        if (other != part) from_others += overlap(of(before, other), of(after, part));
      return from_others * per_index;
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

void count_received(PartExchange& how) {
  how.forward_elements = received(how, how.forward, how.before, how.after);
  how.backward_elements = received(how, how.backward, how.after, how.before);
}

bool moves_pieces(const PartExchange& how) { return !how.before.empty() || !how.after.empty(); }

PartExchange exchange_between(const Layout& before, const Layout& after, const std::vector<std::int64_t>& shape, const PartPlace& place, bool learns, bool per_batch) {
  PartExchange how;
  how.axis = place.axis;
  how.part = place.part;
  how.parts = place.parts;
  how.forward = move_between(before, after);
  how.dimension = after.is_split() ? after.dimension : before.dimension;
  invariant(!before.is_split() || !after.is_split() || before.dimension == after.dimension, "pieces stay along one dimension");
  how.whole = shape;
  how.before = before.parts;
  how.after = after.parts;
  how.per_batch = per_batch;
  // A gradient comes back from what may overlap to what does not.
  if (learns) how.backward = how.forward == Move::halo ? Move::halo_add : move_between(dual(after), dual(before));
  count_received(how);
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
