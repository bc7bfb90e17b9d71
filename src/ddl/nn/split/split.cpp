#include "ddl/nn/split/split.h"

#include <algorithm>
#include <utility>

#include <fmt/ranges.h>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/nn/split/rules.h"
#include "ddl/nn/split/within.h"

namespace ddl {
namespace {

bool is_split(const ModelGraph& graph) {
  return std::any_of(graph.layers.begin(), graph.layers.end(), [](const Layer& layer) {
    return layer.piece || std::any_of(layer.parameters.begin(), layer.parameters.end(), [](const auto& spec) { return spec.piece.has_value(); });
  });
}

/// One axis of several, applied to what those before it left.
class AxisSplit {
 public:
  AxisSplit(const ModelGraph& whole, const std::vector<SplitAxis>& axes) : whole_(whole), axes_(axes), last_(last_dimensions(whole)) {}

  /// `outer`, and a place's that decides, as far as the axes before `axis` have split them.
  ModelGraph apply(const ModelGraph& outer, const ModelGraph& decider, int axis, int part) const {
    const auto& [options, parts] = axes_[static_cast<std::size_t>(axis)];
    if (parts == 1) return outer;
    const auto graph = as_whole(outer);
    std::vector<Dimension> last;
    for (std::size_t i = 0; i < graph.layers.size(); ++i) last.push_back(last_[graph.layers[i].origin < 0 ? i : static_cast<std::size_t>(graph.layers[i].origin)]);
    Splitter splitter({graph, decider, last, options, {axis, part, parts}});
    for (std::size_t i = 0; i < graph.layers.size(); ++i) split_rule_of(graph.layers[i].kind)(splitter, static_cast<int>(i));
    auto made = std::move(splitter).finish();
    if (!is_split(made)) fail(axis);
    set_within(outer, made, axis);
    return made;
  }

 private:
  [[noreturn]] void fail(int axis) const {
    const auto& [options, parts] = axes_[static_cast<std::size_t>(axis)];
    throw Error(Code::invalid_argument, fmt::format("[split] nothing of '{}' is split{}; got dimensions {} and {} parts, expected some of {} that are as large", whole_.name,
                                                    axes_.size() == 1 ? "" : fmt::format(" along axis {}", axis + 1), words_of({SplitOptions{options}}), parts, words_of({SplitOptions{dimensions_of(whole_)}})));
  }

  const ModelGraph& whole_;
  const std::vector<SplitAxis>& axes_;
  std::vector<Dimension> last_;  ///< of the whole network's layers
};

/// Dimensions that several axes split.
std::vector<Dimension> split_again(const std::vector<SplitAxis>& axes) {
  std::vector<Dimension> all;
  for (std::size_t b = 1; b < axes.size(); ++b)
    for (const auto dimension : axes[b].options.dimensions)
      if (std::any_of(axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(b), [&](const SplitAxis& before) { return before.options.splits(dimension); })) all.push_back(dimension);
  return all;
}

/// What an earlier axis has cut unevenly a later one may find in ranges that fit together at one place and not at another: then their layers are not the same.
void require_same_layers(const ModelGraph& part, const ModelGraph& last, const std::vector<SplitAxis>& axes) {
  const auto same = [](const Layer& a, const Layer& b) { return a.name == b.name && a.kind == b.kind && a.inputs == b.inputs; };
  if (std::equal(part.layers.begin(), part.layers.end(), last.layers.begin(), last.layers.end(), same)) return;
  std::vector<SplitOptions> options;
  std::vector<int> sizes;
  for (const auto& axis : axes) {
    options.push_back(axis.options);
    sizes.push_back(axis.parts);
  }
  throw Error(Code::invalid_argument, fmt::format("[split] places of a mesh compute the same layers; got split={} over {}, of which '{}' makes other layers at some than at others, since {} does not divide, "
                                                  "expected axes that divide it, or it on one axis", words_of(options), fmt::join(sizes, "x"), part.name, words_of({SplitOptions{split_again(axes)}})));
}

}  // namespace

int parts_of(const std::vector<SplitAxis>& axes) {
  int parts = 1;
  for (const auto& axis : axes) parts *= axis.parts;
  return parts;
}

int place_on(const std::vector<SplitAxis>& axes, int axis, int part) {
  for (auto later = axes.size(); --later > static_cast<std::size_t>(axis);) part /= axes[later].parts;
  return part % axes[static_cast<std::size_t>(axis)].parts;
}

int first_with(const std::vector<SplitAxis>& axes, const ParameterSpec& spec, int part) {
  int first = 0;
  for (int axis = 0; axis < static_cast<int>(axes.size()); ++axis) {
    const bool cut = std::find(spec.cut_along.begin(), spec.cut_along.end(), axis) != spec.cut_along.end();
    first = first * axes[static_cast<std::size_t>(axis)].parts + (cut ? place_on(axes, axis, part) : 0);
  }
  return first;
}

ModelGraph split_graph(const ModelGraph& whole, const std::vector<SplitAxis>& axes, int part) {
  const int parts = parts_of(axes);
  if (parts < 1 || part < 0 || part >= parts)
    throw Error(Code::invalid_argument, fmt::format("[split] there is no such part; got part {} of {}", part, parts));
  const AxisSplit split(whole, axes);
  const bool again = !split_again(axes).empty();
  auto graph = whole, decider = whole;
  for (int axis = 0; axis < static_cast<int>(axes.size()); ++axis) {
    auto next = split.apply(graph, decider, axis, place_on(axes, axis, part));
    // The last place has the fewest indices of everything.
    if (again || axis + 1 < static_cast<int>(axes.size())) decider = split.apply(decider, decider, axis, axes[static_cast<std::size_t>(axis)].parts - 1);
    graph = std::move(next);
    if (again) require_same_layers(graph, decider, axes);
  }
  return graph;
}

bool communicates(const Layer& layer) {
  return layer.exchange && (communicates(layer.exchange->forward) || communicates(layer.exchange->backward));
}

bool is_per_batch(const Layer& layer) { return layer.kind == LayerKind::batch_moments || layer.kind == LayerKind::merge_moments || (layer.exchange && layer.exchange->per_batch); }

std::vector<Segment> segments(const ModelGraph& part) {
  std::vector<Segment> all(1);
  const int layers = static_cast<int>(part.layers.size());
  for (int i = 0; i < layers; ++i) {
    auto& last = all.back();
    if (!communicates(part.layers[static_cast<std::size_t>(i)])) {
      if (last.last < i) all.push_back({i, i});
      all.back().last = i + 1;
    }
  }
  return all;
}

SplitTraffic traffic_of(const ModelGraph& part) {
  SplitTraffic all;
  for (const auto& layer : part.layers) {
    for (const auto& spec : layer.parameters)
      if (!spec.partial_along.empty()) all.gradient_elements += spec.elements();
    if (!communicates(layer)) continue;
    const auto& how = *layer.exchange;
    (how.per_batch ? all.forward_batch_elements : all.forward_elements) += how.forward_elements;
    (how.per_batch ? all.backward_batch_elements : all.backward_elements) += how.backward_elements;
    all.forward_exchanges += communicates(how.forward);
    all.backward_exchanges += communicates(how.backward);
  }
  return all;
}

std::vector<std::string> whole_layers(const ModelGraph& whole, const ModelGraph& part) {
  std::vector<std::string> names;
  for (const auto& layer : part.layers) {
    if (layer.kind == LayerKind::exchange || layer.kind == LayerKind::bias || layer.origin < 0) continue;
    const auto& of = whole.layers[static_cast<std::size_t>(layer.origin)];
    const bool cut = std::any_of(layer.parameters.begin(), layer.parameters.end(), [](const auto& spec) { return spec.piece.has_value(); });
    const bool works = !of.parameters.empty() || of.multiply_adds > 0;
    if (works && !cut && !layer.piece && layer.flops == of.flops && layer.multiply_adds == of.multiply_adds) names.push_back(layer.name);
  }
  return names;
}

std::string summary_of(const ModelGraph& whole, const ModelGraph& part) {
  const auto traffic = traffic_of(part);
  const auto percent = [](std::int64_t some, std::int64_t all) { return all == 0 ? 0.0 : 100.0 * static_cast<double>(some) / static_cast<double>(all); };
  auto text = fmt::format("{:.1f} % of parameters, {:.1f} % of FLOPs; {} elements forward and {} backward a sample in {} and {} exchanges",
                          percent(part.parameters(), whole.parameters()), percent(part.flops(), whole.flops()), traffic.forward_elements,
                          traffic.backward_elements, traffic.forward_exchanges, traffic.backward_exchanges);
  const auto names = whole_layers(whole, part);
  if (!names.empty()) text += fmt::format("; on every part in full: {}", join(names, ", "));
  return text;
}

}  // namespace ddl
