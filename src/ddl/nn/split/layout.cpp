#include "ddl/nn/split/layout.h"

#include <algorithm>
#include <utility>

#include "ddl/plan/schedule.h"

namespace ddl {

std::int64_t size_of(const Ranges& ranges) {
  std::int64_t size = 0;
  for (const auto& range : ranges) size += range.size();
  return size;
}

std::vector<Ranges> cut_evenly(std::int64_t size, int parts) {
  std::vector<Ranges> all;
  for (int part = 0; part < parts; ++part) {
    const auto range = part_of(static_cast<std::size_t>(size), parts, part);
    all.push_back({{static_cast<std::int64_t>(range.begin), static_cast<std::int64_t>(range.end)}});
  }
  return all;
}

std::vector<Ranges> widened(const std::vector<Ranges>& parts, std::int64_t factor) {
  auto all = parts;
  for (auto& ranges : all)
    for (auto& range : ranges) range = {range.begin * factor, range.end * factor};
  return all;
}

std::int64_t overlap(const Ranges& a, const Ranges& b) {
  std::int64_t both = 0;
  for (const auto& x : a)
    for (const auto& y : b) both += std::max<std::int64_t>(0, std::min(x.end, y.end) - std::max(x.begin, y.begin));
  return both;
}

std::optional<TensorPiece> piece_of(const std::vector<std::int64_t>& whole, const Layout& layout, int part) {
  if (!layout.is_split()) return {};
  return TensorPiece{whole, {{layout.dimension, layout.parts[static_cast<std::size_t>(part)]}}};
}

std::vector<std::int64_t> shape_of(const std::vector<std::int64_t>& whole, const Layout& layout, int part) {
  auto shape = whole;
  if (layout.is_split()) shape[static_cast<std::size_t>(layout.dimension)] = size_of(layout.parts[static_cast<std::size_t>(part)]);
  return shape;
}

Ranges ranges_within(const Ranges& outer, const Ranges& inner) {
  Ranges all;
  for (const auto& [begin, end] : inner) {
    std::int64_t before = 0;
    for (const auto& range : outer) {
      const IndexRange common{std::max(begin, before), std::min(end, before + range.size())};
      const IndexRange found{range.begin + common.begin - before, range.begin + common.end - before};
      before += range.size();
      if (common.size() <= 0) continue;
      if (!all.empty() && all.back().end == found.begin)
        all.back().end = found.end;
      else
        all.push_back(found);
    }
  }
  return all;
}

std::optional<TensorPiece> piece_within(const std::optional<TensorPiece>& outer, const std::optional<TensorPiece>& inner) {
  if (!outer || !inner) return outer ? outer : inner;
  auto piece = *outer;
  for (const auto& [dimension, ranges] : inner->cuts) {
    const auto place = std::find_if(piece.cuts.begin(), piece.cuts.end(), [&, along = dimension](const TensorPiece::Cut& cut) { return cut.dimension >= along; });
    if (place != piece.cuts.end() && place->dimension == dimension)
      place->ranges = ranges_within(place->ranges, ranges);
    else
      piece.cuts.insert(place, {dimension, ranges});
  }
  return piece;
}

void cut(ParameterSpec& spec, int dimension, const Ranges& ranges) {
  spec.piece = TensorPiece{spec.shape, {{dimension, ranges}}};
  spec.shape[static_cast<std::size_t>(dimension)] = size_of(ranges);
}

}  // namespace ddl
