#include <utility>

#include "ddl/nn/split/rules.h"

namespace ddl {
namespace {

/// Channels are normalised by themselves: each part has the parameters and statistics of its own.
void by_channels(Splitter& s, int layer, const Layout& home) {
  auto made = s.like(layer, home);
  made.inputs = {s.read(s.whole(layer).inputs[0], home)};
  for (auto& spec : made.parameters) cut(spec, 0, s.mine(home));
  for (auto& spec : made.statistics) cut(spec, 0, s.mine(home));
  s.give(layer, std::move(made), home);
}

std::vector<std::int64_t> pixels_of_parts(const Splitter& s, int maps, const Layout& home) {
  std::vector<std::int64_t> counts;
  for (int part = 0; part < s.parts(); ++part) {
    const auto shape = shape_of(s.shape(maps), home, part);
    counts.push_back(shape[1] * shape[2]);
  }
  return counts;
}

/// Parts with some rows each tell each other the moments of those, as synchronised batch norm of replicas does (Zhang et al., CVPR 2018).
void by_rows(Splitter& s, int layer, const Layout& home) {
  const auto& whole = s.whole(layer);
  const int from = s.read(whole.inputs[0], home);
  auto made = s.like(layer, home);
  made.inputs = {from};
  made.kind = LayerKind::batch_normalise;
  s.mark_partial(made);
  if (!whole.frozen) {
    const auto channels = whole.shape[0];
    const std::vector<std::int64_t> all{s.parts(), 2 * channels};
    const auto pieces = Layout::split(0, cut_evenly(s.parts(), s.parts()));
    auto moments = s.like(layer, home);
    moments.name = s.name_beside(layer, "moments");
    moments.inputs = {from};
    moments.kind = LayerKind::batch_moments;
    moments.shape = {1, 2 * channels};
    moments.piece = piece_of(all, pieces, s.part());
    moments.parameters.clear();
    moments.statistics.clear();
    moments.flops = moments.flops * 3 / 5;  // of five, three for the statistics
    moments.keeps = {.inputs = true};
    moments.auxiliary = true;  // not needed in evaluation
    made.flops -= moments.flops;
    const int of_part = s.append(std::move(moments));
    made.inputs.push_back(s.exchange(layer, "gather_moments", of_part, pieces, Layout::shared(), all, true));
    made.attributes.counts = pixels_of_parts(s, layer, home);
  } else {
    made.kind = LayerKind::batch_norm2d;
  }
  s.give(layer, std::move(made), home);
}

/// Moments [parts, 2 channels] of maps whose channels lie so: both of each part's channels.
Layout moments_of_channels(const Layout& maps, std::int64_t channels) {
  auto parts = maps.parts;
  for (auto& ranges : parts)
    for (std::size_t i = 0, n = ranges.size(); i < n; ++i) ranges.push_back({channels + ranges[i].begin, channels + ranges[i].end});
  return Layout::split(1, std::move(parts));
}

/// Each part of some rows' columns takes its own moments, and out of all of those, those of the rows.
void moments_by_parts(Splitter& s, int layer, const Layout& home) {
  const auto& whole = s.whole(layer);
  const int maps = whole.inputs[0];
  const int from = s.read(maps, home);
  auto own = s.like(layer, Layout::whole());
  own.name = s.name_beside(layer, "own");
  own.inputs = {from};
  own.flops = own.flops * elements_of(shape_of(s.shape(maps), home, s.part())) / elements_of(s.shape(maps));
  const int of_part = s.append(std::move(own));
  const std::vector<std::int64_t> all{s.parts(), whole.shape[1]};
  const auto pieces = Layout::split(0, cut_evenly(s.parts(), s.parts()));
  // Each part normalises its own pixels by them, and so has a summand of their gradient.
  const auto merged = s.learns(layer) ? Layout::shared() : Layout::whole();
  const int gathered = s.exchange(layer, "gather_moments", of_part, pieces, merged, all, true);
  auto made = s.like(layer, merged);
  made.inputs = {gathered};
  made.kind = LayerKind::merge_moments;
  made.attributes.counts = pixels_of_parts(s, maps, home);
  made.flops = 5 * elements_of(all);
  made.keeps = {.inputs = true};
  s.give(layer, std::move(made), merged);
}

}  // namespace

void split_batch_moments(Splitter& s, int layer) {
  const auto& whole = s.whole(layer);
  const int maps = whole.inputs[0];
  const auto home = s.home(maps);
  if (!home.is_split()) return run_whole(s, layer);
  if (!home.is_split(0)) return moments_by_parts(s, layer, home);
  const auto moments = moments_of_channels(home, s.shape(maps)[0]);
  auto made = s.like(layer, moments);
  made.inputs = {s.read(maps, home)};
  s.give(layer, std::move(made), moments);
}

void split_batch_normalise(Splitter& s, int layer) {
  const auto& whole = s.whole(layer);
  const auto home = s.home(whole.inputs[0]);
  if (!home.is_split()) return run_whole(s, layer);
  auto made = s.like(layer, home);
  made.inputs = {s.read(whole.inputs[0], home)};
  made.inputs.push_back(s.read(whole.inputs[1], home.is_split(0) ? moments_of_channels(home, whole.shape[0]) : Layout::shared()));
  if (home.is_split(0)) {
    for (auto& spec : made.parameters) cut(spec, 0, s.mine(home));
    for (auto& spec : made.statistics) cut(spec, 0, s.mine(home));
  } else {
    s.mark_partial(made);
  }
  s.give(layer, std::move(made), home);
}

void split_batch_norm(Splitter& s, int layer) {
  const auto& home = s.home(s.whole(layer).inputs[0]);
  if (home.is_split(0)) return by_channels(s, layer, home);
  if (home.is_split()) return by_rows(s, layer, home);
  run_whole(s, layer);
}

/// Of places, each by itself; all features are needed at one.
void split_layer_norm(Splitter& s, int layer) {
  const auto home = s.home(s.whole(layer).inputs[0]);
  if (!home.is_split(0) || s.shape(layer).size() != 2) return run_whole(s, layer);
  auto made = s.like(layer, home);
  made.inputs = {s.read(s.whole(layer).inputs[0], home)};
  s.mark_partial(made);
  s.give(layer, std::move(made), home);
}

}  // namespace ddl
