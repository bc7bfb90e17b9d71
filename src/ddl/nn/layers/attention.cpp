#include <utility>

#include "ddl/nn/graph_builder.h"

#include <fmt/format.h>

namespace ddl {

int GraphBuilder::attend(Layer layer, const Attention& how, int padded_words) {
  require_rank(layer, 2);
  const auto& queries = shape(layer.inputs[0]);
  const auto& memory = shape(layer.inputs.back());
  const auto features = queries[1], length = queries[0], seen = memory[0];
  if (memory[1] != features) fail(layer.name, fmt::format("attends to as many features as it has; got {}, expected {}", memory[1], features));
  if (how.heads < 1 || features % how.heads != 0)
    fail(layer.name, fmt::format("divides its features among heads; got {} features and {} heads", features, how.heads));
  layer.shape = queries;
  layer.attributes.heads = how.heads;
  layer.attributes.causal = how.causal;
  layer.parameters = {{layer.name + ".in_proj_weight", {3 * features, features}, how.weight(features, 3 * features)},
                      {layer.name + ".in_proj_bias", {3 * features}},
                      {layer.name + ".out_proj.weight", {features, features}, how.output(features, features)},
                      {layer.name + ".out_proj.bias", {features}}};
  // Four projections, then every place with every other, twice: scores, and the mean that they weigh.
  const auto projections = 2 * length * features * features + 2 * seen * features * features;
  const auto products = 2 * length * seen * features;
  layer.multiply_adds = projections + products;
  // A score is scaled, its exponential (ten operations) taken and normalised.
  layer.flops = 2 * layer.multiply_adds + 2 * (length + seen) * features + 13 * how.heads * length * seen;
  if (padded_words >= 0) {
    if (shape(padded_words) != std::vector<std::int64_t>{seen})
      fail(layer.name, fmt::format("takes a word for each of {} places that it sees; got {}", seen, to_string(shape(padded_words))));
    layer.inputs.push_back(padded_words);
  }
  // Queries, keys, values, their mean, and each row's sum of exponentials: what a fused kernel keeps.
  const auto kept = 2 * length * features + 2 * seen * features + how.heads * length;
  return append(std::move(layer), {.inputs = true, .extra = kept});
}

int GraphBuilder::self_attention(const std::string& name, int queries, const Attention& how, int padded_words) {
  return attend({name, LayerKind::attention, {queries, queries}}, how, padded_words);
}

int GraphBuilder::cross_attention(const std::string& name, int queries, int memory, const Attention& how, int padded_words) {
  return attend({name, LayerKind::attention, {queries, memory}}, how, padded_words);
}

}  // namespace ddl
