#include "ddl/nn/split/dimension.h"

#include <algorithm>
#include <array>
#include <set>

#include "ddl/core/error.h"
#include "ddl/core/options.h"
#include "ddl/core/text.h"

namespace ddl {
namespace {

constexpr std::array kNames{"channels", "height", "width", "features", "heads", "hidden", "vocabulary", "sequence"};

/// What gives each element from the same one of its first input.
bool is_pointwise(LayerKind kind) {
  switch (kind) {
    case LayerKind::relu:
    case LayerKind::relu6:
    case LayerKind::gelu:
    case LayerKind::tanh:
    case LayerKind::sigmoid:
    case LayerKind::scale:
    case LayerKind::dropout:
    case LayerKind::wait: return true;
    default: return false;
  }
}

}  // namespace

std::string_view name(Dimension dimension) { return kNames.at(static_cast<std::size_t>(dimension)); }

Dimension dimension_from_name(std::string_view word) {
  const auto found = std::find(kNames.begin(), kNames.end(), word);
  if (found != kNames.end()) return static_cast<Dimension>(found - kNames.begin());
  if (word == "batch") throw Error(Code::invalid_argument, "[split] the batch is not split inside a network; strategy data does that");
  const std::vector<std::string> known(kNames.begin(), kNames.end());
  throw Error(Code::invalid_argument, fmt::format("[split] no such dimension; got '{}', expected some of: {}{}", word, join(known, " "), did_you_mean(word, known)));
}

bool SplitOptions::splits(Dimension dimension) const { return std::find(dimensions.begin(), dimensions.end(), dimension) != dimensions.end(); }

SplitOptions split_options(const Spec& spec) {
  const auto option = [&](const std::string& key, const std::string& standard) {
    const auto found = spec.options.find(key);
    return found == spec.options.end() ? standard : found->second;
  };
  const auto words = option("split", "megatron");
  const bool sequence = switch_option(spec, "sequence", false);
  SplitOptions options;
  if (words == "megatron")
    options.dimensions = {Dimension::heads, Dimension::hidden, Dimension::vocabulary};
  else if (words == "channels")
    options.dimensions = {Dimension::channels, Dimension::features, Dimension::hidden, Dimension::vocabulary};
  else
    for (const auto& word : split(words, '+')) {
      const auto dimension = dimension_from_name(word);
      if (!options.splits(dimension)) options.dimensions.push_back(dimension);
    }
  if (sequence && !options.splits(Dimension::sequence)) options.dimensions.push_back(Dimension::sequence);
  return options;
}

std::vector<Dimension> dimensions_of(const ModelGraph& graph) {
  std::set<Dimension> all;
  const auto last = last_dimensions(graph);
  for (std::size_t i = 0; i < graph.layers.size(); ++i) {
    const auto& layer = graph.layers[i];
    if (layer.kind == LayerKind::script) continue;
    if (layer.shape.size() == 3)
      all.insert({Dimension::channels, Dimension::height, Dimension::width});
    else if (layer.kind != LayerKind::input)
      all.insert(last[i]);
    if (layer.shape.size() == 2) all.insert(Dimension::sequence);
    if (layer.kind == LayerKind::attention) all.insert(Dimension::heads);
    if (layer.kind == LayerKind::embedding) all.insert(Dimension::vocabulary);
  }
  return {all.begin(), all.end()};
}

std::vector<Dimension> last_dimensions(const ModelGraph& graph) {
  const auto n = graph.layers.size();
  const auto at = [](int number) { return static_cast<std::size_t>(number); };
  // Whether only linear layers read a value, be it through others.
  std::vector<bool> hidden(n, true);
  for (std::size_t i = n; i-- > 0;) {
    const auto& layer = graph.layers[i];
    if (i + 1 == n || static_cast<int>(i) == graph.auxiliary) hidden[i] = false;
    for (const int input : layer.inputs)
      if (layer.kind != LayerKind::linear && !(is_pointwise(layer.kind) && hidden[i])) hidden[at(input)] = false;
  }
  std::vector<Dimension> names(n, Dimension::features);
  for (std::size_t i = 0; i < n; ++i) {
    const auto& layer = graph.layers[i];
    if (layer.kind == LayerKind::linear)
      names[i] = i + 1 == n || static_cast<int>(i) == graph.auxiliary ? Dimension::vocabulary : hidden[i] ? Dimension::hidden : Dimension::features;
    else if (is_pointwise(layer.kind))
      names[i] = names[at(layer.inputs[0])];
  }
  return names;
}

}  // namespace ddl
