#include "ddl/nn/split/split.h"

#include <algorithm>
#include <utility>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/nn/split/rules.h"

namespace ddl {
namespace {

std::string names_of(const std::vector<Dimension>& dimensions) {
  std::vector<std::string> words;
  for (const auto dimension : dimensions) words.emplace_back(name(dimension));
  return join(words, "+");
}

bool is_split(const ModelGraph& graph) {
  return std::any_of(graph.layers.begin(), graph.layers.end(), [](const Layer& layer) {
    return layer.piece || std::any_of(layer.parameters.begin(), layer.parameters.end(), [](const auto& spec) { return spec.piece.has_value(); });
  });
}

}  // namespace

ModelGraph split_graph(const ModelGraph& whole, const SplitOptions& options, int part, int parts) {
  if (parts < 1 || part < 0 || part >= parts)
    throw Error(Code::invalid_argument, fmt::format("[split] there is no such part; got part {} of {}", part, parts));
  if (parts == 1) return whole;
  Splitter splitter(whole, options, part, parts);
  for (std::size_t i = 0; i < whole.layers.size(); ++i) split_rule_of(whole.layers[i].kind)(splitter, static_cast<int>(i));
  auto made = std::move(splitter).finish();
  if (!is_split(made))
    throw Error(Code::invalid_argument, fmt::format("[split] nothing of '{}' is split; got dimensions {} and {} parts, expected some of {} that are as large",
                                                    whole.name, names_of(options.dimensions), parts, names_of(dimensions_of(whole))));
  return made;
}

bool communicates(const Layer& layer) {
  return layer.exchange && (communicates(layer.exchange->forward) || communicates(layer.exchange->backward));
}

bool is_per_batch(const Layer& layer) { return layer.kind == LayerKind::batch_moments || (layer.exchange && layer.exchange->per_batch); }

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
      if (spec.partial_gradient) all.gradient_elements += spec.elements();
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
