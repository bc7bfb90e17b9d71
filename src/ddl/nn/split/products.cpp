// Linear layers and convolutions, whose weights are [out, in, …]. Column: each part makes some of the outputs from all inputs; row: each part sums
// over some of the inputs (Megatron's words, of the transposed weight).
#include <utility>

#include "ddl/core/at.h"
#include "ddl/core/error.h"
#include "ddl/nn/split/rules.h"

namespace ddl {
namespace {

struct Product {
  int layer, input;
  int in_dimension, out_dimension;  ///< of samples
  std::int64_t in, out;             ///< along those
  bool convolution;
  std::int64_t weight_area;         ///< multiply-adds of one output for each input index
};

Product product_of(const Splitter& s, int layer) {
  const auto& whole = s.whole(layer);
  const int input = whole.inputs[0];
  const bool convolution = whole.kind == LayerKind::conv2d;
  const int from = convolution ? 0 : static_cast<int>(s.shape(input).size()) - 1, to = convolution ? 0 : static_cast<int>(whole.shape.size()) - 1;
  const auto& kernel = whole.attributes.kernel;
  return {layer, input, from, to, s.shape(input)[at(from)], whole.shape[at(to)], convolution, convolution ? kernel.height * kernel.width : 1};
}

/// Of a linear layer with its own weight, the bias follows it; with a tied one it is alone.
bool has_bias(const Layer& layer) { return layer.parameters.size() + layer.borrowed.size() > 1; }
ParameterSpec* weight_of(Layer& layer) { return layer.borrowed.empty() ? &layer.parameters.front() : nullptr; }

void count(Layer& layer, std::int64_t inputs, bool bias) {
  const auto elements = elements_of(layer.shape);
  layer.multiply_adds = inputs * elements;
  layer.flops = 2 * layer.multiply_adds + (bias ? elements : 0);
}

void by_columns(Splitter& s, const Product& p) {
  const auto home = Layout::split(p.out_dimension, cut_evenly(p.out, s.parts()));
  const int from = s.read(p.input, Layout::shared());
  auto made = s.like(p.layer, home);
  made.inputs = {from};
  if (auto* const weight = weight_of(made)) cut(*weight, 0, s.mine(home));
  if (has_bias(made)) cut(made.parameters.back(), 0, s.mine(home));
  count(made, p.in * p.weight_area, has_bias(made));
  s.give(p.layer, std::move(made), home);
}

Layout rows_of(const Splitter& s, const Product& p) {
  const auto& home = s.home(p.input);
  return home.is_split(p.in_dimension) ? home : Layout::split(p.in_dimension, cut_evenly(p.in, s.parts()));
}

void by_rows(Splitter& s, const Product& p, const Layout& rows) {
  const int from = s.read(p.input, rows);
  auto made = s.like(p.layer, Layout::whole());
  made.inputs = {from};
  std::vector<ParameterSpec> bias;
  if (has_bias(made)) {
    bias.push_back(made.parameters.back());
    made.parameters.pop_back();
  }
  if (auto* const weight = weight_of(made)) cut(*weight, 1, s.mine(rows));
  count(made, size_of(s.mine(rows)) * p.weight_area, false);
  complete_with_bias(s, p.layer, s.append(std::move(made)), bias, destination(s, p.layer));
}

/// With whole weights, on the places that each part has, or on all.
void with_whole_weights(Splitter& s, const Product& p, const Layout& home) {
  const int from = s.read(p.input, home);
  auto made = s.like(p.layer, home);
  made.inputs = {from};
  if (home.is_split()) s.mark_partial(made);
  s.give(p.layer, std::move(made), home);
}

/// A weight that is tied lies as its owner has it, and has its gradient as that does: what is whole on one side and summed on the other could
/// not be told apart in one tensor.
void tied(Splitter& s, const Product& p) {
  const auto& owner = s.first_parameter(s.whole(p.layer).borrowed[0].layer);
  if (owner.piece && owner.piece->along(0)) {
    by_columns(s, p);
  } else if (owner.piece) {
    by_rows(s, p, Layout::split(p.in_dimension, cut_evenly(p.in, s.parts())));
  } else if (!owner.partial_along.empty()) {
    with_whole_weights(s, p, Layout::split(0, cut_evenly(s.shape(p.layer)[0], s.parts())));
  } else {
    with_whole_weights(s, p, Layout::whole());
  }
}

/// Groups of channels stay together; each part has some.
void by_groups(Splitter& s, const Product& p) {
  const auto groups = s.whole(p.layer).attributes.groups, each = p.in / groups;
  const auto& home = s.home(p.input);
  if (!(s.splits(Dimension::channels) || home.is_split(0)) || !s.enough(groups)) {
    run_whole(s, p.layer);
    return;
  }
  if (each > 1 && groups % s.parts() != 0)
    s.fail(p.layer, fmt::format("divides its groups among parts; got {} groups and {} parts, expected a divisor of {}", groups, s.parts(), groups));
  // One channel a group divides as the channels do.
  const auto cuts = each == 1 && home.is_split(0) ? home.parts : cut_evenly(groups, s.parts());
  const auto before = Layout::split(0, widened(cuts, each)), after = Layout::split(0, widened(cuts, p.out / groups));
  const int from = s.read(p.input, before);
  auto made = s.like(p.layer, after);
  made.inputs = {from};
  made.attributes.groups = size_of(cuts[at(s.part())]);
  for (auto& spec : made.parameters) cut(spec, 0, s.mine(after));
  s.give(p.layer, std::move(made), after);
}

/// Elements moved, forward and backward, by all parts together, for each part less one: an all-reduce moves 2n of n elements, an all-gather and a
/// reduce-scatter n.
std::int64_t cost_of_columns(const Splitter& s, const Product& p) {
  const auto in = elements_of(s.deciding_shape(p.input)), out = elements_of(s.deciding_shape(p.layer));
  const bool learns = s.learns(p.input);
  const auto result = s.is_output(p.layer) ? out : 0;
  // What others have had exchanged costs nothing more: their gradients are added before they go back.
  if (s.has(p.input, learns ? Layout::shared() : Layout::whole())) return result;
  if (!s.home(p.input).is_split()) return (learns ? 2 * in : 0) + result;
  return in + (learns ? in : 0) + result;
}

std::int64_t cost_of_rows(const Splitter& s, const Product& p) {
  const auto in = elements_of(s.deciding_shape(p.input)), out = elements_of(s.deciding_shape(p.layer));
  return (s.home(p.input).is_split() || !s.learns(p.input) ? 0 : in) + 2 * out;
}

}  // namespace

/// By columns where the dimension that it makes is split, by rows where the one that it sums over is, or already lies in pieces; where both
/// would do, what moves less, columns if equal.
void split_product(Splitter& s, int layer) {
  if (split_spatially(s, layer)) return;
  const auto p = product_of(s, layer);
  const auto& whole = s.whole(layer);
  if (whole.kind == LayerKind::conv2d && whole.attributes.groups > 1) return by_groups(s, p);
  if (!whole.borrowed.empty()) return tied(s, p);
  const auto& home = s.home(p.input);
  const auto made = p.convolution ? Dimension::channels : s.last_dimension(layer), summed = p.convolution ? Dimension::channels : s.last_dimension(p.input);
  const bool columns = s.splits(made) && s.enough(p.layer, p.out_dimension);
  const bool rows = home.is_split(p.in_dimension) || (!home.is_split() && s.splits(summed) && s.enough(p.input, p.in_dimension));
  if (columns && (!rows || cost_of_columns(s, p) <= cost_of_rows(s, p))) return by_columns(s, p);
  if (rows) return by_rows(s, p, rows_of(s, p));
  const bool places = !p.convolution && home.is_split(0) && p.in_dimension == 1;
  with_whole_weights(s, p, places ? home : Layout::whole());
}

}  // namespace ddl
