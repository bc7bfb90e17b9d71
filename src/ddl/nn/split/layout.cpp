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
  return TensorPiece{whole, layout.dimension, layout.parts[static_cast<std::size_t>(part)]};
}

std::vector<std::int64_t> shape_of(const std::vector<std::int64_t>& whole, const Layout& layout, int part) {
  auto shape = whole;
  if (layout.is_split()) shape[static_cast<std::size_t>(layout.dimension)] = size_of(layout.parts[static_cast<std::size_t>(part)]);
  return shape;
}

void cut(ParameterSpec& spec, int dimension, const Ranges& ranges) {
  spec.piece = TensorPiece{spec.shape, dimension, ranges};
  spec.shape[static_cast<std::size_t>(dimension)] = size_of(ranges);
}

}  // namespace ddl
