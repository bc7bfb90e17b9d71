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

namespace {

SplitOptions by_names(const std::string& words) {
  SplitOptions options;
  for (const auto& word : split(words, '+')) {
    const auto dimension = dimension_from_name(word);
    if (!options.splits(dimension)) options.dimensions.push_back(dimension);
  }
  return options;
}

SplitOptions of_axis(const std::string& words) {
  if (words == "megatron") return {{Dimension::heads, Dimension::hidden, Dimension::vocabulary}};
  if (words == "channels") return {{Dimension::channels, Dimension::features, Dimension::hidden, Dimension::vocabulary}};
  return by_names(words);
}

}  // namespace

std::vector<SplitOptions> split_options(const Spec& spec) {
  const auto option = [&](const std::string& key, const std::string& standard) {
    const auto found = spec.options.find(key);
    return found == spec.options.end() ? standard : found->second;
  };
  const auto words = option("split", "megatron");
  const bool sequence = switch_option(spec, "sequence", false);
  std::vector<SplitOptions> axes;
  for (const auto& each : split(words, '/')) axes.push_back(of_axis(each));
  if (sequence && axes.size() > 1)
    throw Error(Code::invalid_argument, fmt::format("[{}] sequence=on is of a split along one axis; got sequence=on with split={}, expected sequence among the dimensions of one of the {} axes",
                                                    spec.name, words, axes.size()));
  if (sequence && !axes[0].splits(Dimension::sequence)) axes[0].dimensions.push_back(Dimension::sequence);
  return axes;
}

std::string words_of(const std::vector<SplitOptions>& axes) {
  std::vector<std::string> all;
  for (const auto& axis : axes) {
    std::vector<std::string> words;
    for (const auto dimension : axis.dimensions) words.emplace_back(name(dimension));
    all.push_back(join(words, "+"));
  }
  return join(all, "/");
}

std::vector<SplitOptions> split_from_words(const std::string& words) {
  std::vector<SplitOptions> axes;
  for (const auto& each : split(words, '/')) axes.push_back(by_names(each));
  return axes;
}

std::vector<Dimension> dimensions_of(const ModelGraph& graph) {
  std::set<Dimension> all;
  const auto last = last_dimensions(graph);
  for (std::size_t i = 0; i < graph.layers.size(); ++i) {
    const auto& layer = graph.layers[i];
    // Images that are flattened at once are never split.
    if (layer.kind == LayerKind::script || layer.kind == LayerKind::input) continue;
    if (layer.shape.size() == 3)
      all.insert({Dimension::channels, Dimension::height, Dimension::width});
    else
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
