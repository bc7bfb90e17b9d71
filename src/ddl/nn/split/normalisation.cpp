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

/// Parts with some rows each tell each other the moments of those, as synchronised batch norm of replicas does (Zhang et al., CVPR 2018).
void by_rows(Splitter& s, int layer, const Layout& home) {
  const auto& whole = s.whole(layer);
  const int from = s.read(whole.inputs[0], home);
  auto made = s.like(layer, home);
  made.inputs = {from};
  made.kind = LayerKind::batch_normalise;
  mark_partial(made);
  if (!whole.frozen) {
    const auto channels = whole.shape[0];
    const std::vector<std::int64_t> all{2 * channels * s.parts()};
    const auto pieces = Layout::split(0, cut_evenly(all[0], s.parts()));
    auto moments = s.like(layer, home);
    moments.name += ".moments";
    moments.inputs = {from};
    moments.kind = LayerKind::batch_moments;
    moments.shape = {2 * channels};
    moments.piece = piece_of(all, pieces, s.part());
    moments.parameters.clear();
    moments.statistics.clear();
    moments.flops = moments.flops * 3 / 5;  // of five, three for the statistics
    moments.keeps = {.inputs = true};
    moments.auxiliary = true;  // not needed in evaluation
    made.flops -= moments.flops;
    const int of_part = s.append(std::move(moments));
    made.inputs.push_back(s.exchange(layer, "gather_moments", of_part, pieces, Layout::shared(), all, true));
    for (int part = 0; part < s.parts(); ++part) {
      const auto shape = shape_of(whole.shape, home, part);
      made.attributes.counts.push_back(shape[1] * shape[2]);
    }
  } else {
    made.kind = LayerKind::batch_norm2d;
  }
  s.give(layer, std::move(made), home);
}

}  // namespace

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
  mark_partial(made);
  s.give(layer, std::move(made), home);
}

}  // namespace ddl
