#pragma once

#include <string_view>
#include <vector>

#include "ddl/nn/split/layout.h"

namespace ddl {

/// Whether some index is in several parts.
bool overlaps(const std::vector<Ranges>& parts);

/// One of the places of an axis.
struct PartPlace {
  int axis = 0, part = 0, parts = 1;
};

/// The exchange that converts a value of this whole shape from one layout to another, and its gradient, if it has one, back; with what this
/// part receives for it. From summands, or between split layouts of one dimension, or from split or whole to any other.
PartExchange exchange_between(const Layout& before, const Layout& after, const std::vector<std::int64_t>& shape, const PartPlace& place, bool learns, bool per_batch);

/// Whether ranges of a dimension move, or whole values and summands alone.
bool moves_pieces(const PartExchange& how);
/// Fills in what the part receives.
void count_received(PartExchange& how);

/// What an exchange is called in the names of layers: `gather` (backward a slice), `gather_shared` (backward a reduce-scatter), `copy`, `slice`,
/// `all_reduce`, `reduce_scatter`, `halo`.
std::string_view word_of(const PartExchange& how);

}  // namespace ddl
