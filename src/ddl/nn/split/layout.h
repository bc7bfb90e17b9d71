#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ddl/nn/graph.h"

namespace ddl {

using Ranges = std::vector<IndexRange>;

std::int64_t size_of(const Ranges& ranges);
/// `size` indices cut into `parts` contiguous ranges that differ by at most one, the longer ones first (part_of()).
std::vector<Ranges> cut_evenly(std::int64_t size, int parts);
/// Each index becomes `factor` neighbouring ones.
std::vector<Ranges> widened(const std::vector<Ranges>& parts, std::int64_t factor);
/// Indices that both have; ranges ascend.
std::int64_t overlap(const Ranges& a, const Ranges& b);

/// How a value lies on the parts of a split network, and with it how its gradient does:
///   whole    every part has all of it, and later its whole gradient
///   shared   every part has all of it, and computes a summand of its gradient: what layers read that are themselves split
///   split    every part has those ranges of one dimension of a sample, and the gradient of the same
///   partial  every part has a summand of it, and later its whole gradient: what layers give that sum over a split dimension
/// So whole and split are their own duals, and shared and partial each other's: a conversion's backward is the conversion between the duals.
struct Layout {
  enum class Kind : std::uint8_t { whole, shared, split, partial };
  Kind kind = Kind::whole;
  int dimension = 0;                 ///< of a sample
  std::vector<Ranges> parts = {};    ///< of split; ranges of a part ascend

  static Layout whole() { return {}; }
  static Layout shared() { return {Kind::shared}; }
  static Layout partial() { return {Kind::partial}; }
  static Layout split(int dimension, std::vector<Ranges> parts) { return {Kind::split, dimension, std::move(parts)}; }
  bool is_split() const { return kind == Kind::split; }
  bool is_split(int along) const { return is_split() && dimension == along; }
  bool operator==(const Layout&) const = default;
};

/// Of a value of this whole shape: what a part has, and the shape of that.
std::optional<TensorPiece> piece_of(const std::vector<std::int64_t>& whole, const Layout& layout, int part);
std::vector<std::int64_t> shape_of(const std::vector<std::int64_t>& whole, const Layout& layout, int part);

/// Of what has ranges `outer` of a whole dimension, ranges `inner`: which those are of the whole.
Ranges ranges_within(const Ranges& outer, const Ranges& inner);
/// The piece `inner` of what is itself the piece `outer` of a whole: a piece of that.
std::optional<TensorPiece> piece_within(const std::optional<TensorPiece>& outer, const std::optional<TensorPiece>& inner);

/// Cuts a parameter, statistic or constant of a whole network down to ranges of one of its dimensions.
void cut(ParameterSpec& spec, int dimension, const Ranges& ranges);

}  // namespace ddl
