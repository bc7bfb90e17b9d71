// Along height or width: each part has rows of every map, and of those that its windows reach over its edges gets a copy, a halo.
#include <algorithm>
#include <optional>
#include <utility>

#include "ddl/core/at.h"
#include "ddl/nn/split/rules.h"

namespace ddl {
namespace {

std::int64_t along(const Pair& pair, int dimension) { return dimension == 1 ? pair.height : pair.width; }

/// 1 for height, 2 for width: the one that the options split, if the value lies so or whole and there is some for each part.
std::optional<int> spatial_dimension(const Splitter& s, int layer) {
  if (s.shape(layer).size() != 3) return {};
  const int input = s.whole(layer).inputs[0];
  const auto& home = s.home(input);
  for (const int dimension : {1, 2})
    if (s.splits(dimension == 1 ? Dimension::height : Dimension::width) && (!home.is_split() || home.is_split(dimension)))
      if (s.enough(layer, dimension) && s.enough(input, dimension)) return dimension;
  return {};
}

struct Windows {
  Ranges rows;                       ///< of the input, that a part needs
  std::int64_t before = 0, after = 0;  ///< padding at the edges of the whole map
};

/// What the windows of some rows of the output look at.
Windows seen_by(const Attributes& a, int dimension, IndexRange out, std::int64_t in) {
  const auto kernel = along(a.kernel, dimension), stride = along(a.stride, dimension), padding = along(a.padding, dimension);
  const auto begin = out.begin * stride - padding, end = (out.end - 1) * stride - padding + kernel;
  const IndexRange rows{std::clamp<std::int64_t>(begin, 0, in), std::clamp<std::int64_t>(end, 0, in)};
  return {{rows}, rows.begin - begin, end - rows.end};
}

/// Whether a part may take the rows that it has: those too many at the end are fewer than a step, so that no window begins in them.
bool serves(const Layout& home, const std::vector<Ranges>& needed, std::int64_t stride) {
  for (std::size_t part = 0; part < needed.size(); ++part) {
    const auto& own = home.parts[part];
    if (own.size() != 1 || own[0].begin != needed[part][0].begin) return false;
    const auto more = own[0].end - needed[part][0].end;
    if (more < 0 || more >= stride) return false;
  }
  return true;
}

}  // namespace

bool split_spatially(Splitter& s, int layer) {
  const auto dimension = spatial_dimension(s, layer);
  if (!dimension) return false;
  const auto& whole = s.whole(layer);
  const int input = whole.inputs[0];
  const auto& a = whole.attributes;
  const auto home = Layout::split(*dimension, cut_evenly(whole.shape[at(*dimension)], s.parts()));
  std::vector<Windows> windows;
  std::vector<Ranges> needed;
  for (const auto& out : home.parts) {
    windows.push_back(seen_by(a, *dimension, out[0], s.shape(input)[at(*dimension)]));
    needed.push_back(windows.back().rows);
    if (size_of(needed.back()) == 0) return false;  // padding alone
  }
  const auto& given = s.home(input);
  // Rows left over at the end are no padding's business.
  const bool as_they_are = given.is_split(*dimension) && serves(given, needed, along(a.stride, *dimension));
  const int from = s.read(input, as_they_are ? given : Layout::split(*dimension, needed));
  auto made = s.like(layer, home);
  made.inputs = {from};
  const auto& mine = windows[at(s.part())];
  if (a.padding_after.height < 0) made.attributes.padding_after = a.padding;
  (*dimension == 1 ? made.attributes.padding.height : made.attributes.padding.width) = mine.before;
  (*dimension == 1 ? made.attributes.padding_after.height : made.attributes.padding_after.width) = mine.after;
  s.mark_partial(made);
  s.give(layer, std::move(made), home);
  return true;
}

void split_window(Splitter& s, int layer) {
  if (split_spatially(s, layer)) return;
  const auto& home = s.home(s.whole(layer).inputs[0]);
  if (!home.is_split(0)) return run_whole(s, layer);
  auto made = s.like(layer, home);
  made.inputs = {s.read(s.whole(layer).inputs[0], home)};
  s.give(layer, std::move(made), home);
}

/// To one pixel it is a mean: each part's, weighed by its rows, is a summand.
void split_adaptive_pool(Splitter& s, int layer) {
  const auto& whole = s.whole(layer);
  const int input = whole.inputs[0];
  const auto& home = s.home(input);
  const bool to_one = whole.shape[1] == 1 && whole.shape[2] == 1;
  if (home.is_split(0) || (home.is_split() && to_one)) {
    const int from = s.read(input, home);
    auto made = s.like(layer, home.is_split(0) ? home : Layout::whole());
    made.inputs = {from};
    made.flops = elements_of(shape_of(s.shape(input), home, s.part()));
    if (home.is_split(0)) return s.give(layer, std::move(made), home);
    auto weighed = s.like(layer, Layout::whole());
    weighed.inputs = {s.append(std::move(made))};
    weighed.name = s.name_beside(layer, "weigh");
    weighed.kind = LayerKind::scale;
    weighed.keeps = {};
    weighed.flops = elements_of(weighed.shape);
    weighed.attributes = {};
    weighed.attributes.factor = static_cast<double>(size_of(s.mine(home))) / static_cast<double>(s.shape(input)[at(home.dimension)]);
    return complete_with_bias(s, layer, s.append(std::move(weighed)), {}, destination(s, layer));
  }
  run_whole(s, layer);
}

}  // namespace ddl
