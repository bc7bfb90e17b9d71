#include <cmath>

#include "ddl/nn/builtin.h"
#include "ddl/nn/networks/common.h"

namespace ddl {
namespace {

struct Sizes {
  std::int64_t features, inner, heads, layers;
  double rate;
};

/// A sub-layer's result, after dropout, is added to its input and the sum normalised.
int join(GraphBuilder& net, const std::string& name, const std::string& norm, int result, int from, double rate) {
  return net.layer_norm(norm, net.add(name + ".add", net.dropout(name + ".dropout", result, rate), from));
}

int feed_forward(GraphBuilder& net, const std::string& name, int from, const Sizes& sizes) {
  const GraphBuilder::Linear start{.weight = glorot_weights, .zero_bias = true};
  const int x = net.relu(name + ".activation", net.linear(name + ".linear1", from, sizes.inner, start));
  return net.linear(name + ".linear2", x, sizes.features, start);
}

GraphBuilder::Attention attention(const Sizes& sizes, bool causal) {
  return {.heads = sizes.heads, .causal = causal, .weight = glorot_weights, .output = glorot_weights};
}

int encoder_layer(GraphBuilder& net, const std::string& name, int from, int words, const Sizes& sizes) {
  int x = net.self_attention(name + ".self_attn", from, attention(sizes, false), words);
  x = join(net, name + ".attended", name + ".norm1", x, from, sizes.rate);
  return join(net, name + ".fed", name + ".norm2", feed_forward(net, name, x, sizes), x, sizes.rate);
}

int decoder_layer(GraphBuilder& net, const std::string& name, int from, int memory, int words, const Sizes& sizes) {
  int x = net.self_attention(name + ".self_attn", from, attention(sizes, true));
  const int said = join(net, name + ".attended", name + ".norm1", x, from, sizes.rate);
  x = net.cross_attention(name + ".multihead_attn", said, memory, attention(sizes, false), words);
  x = join(net, name + ".looked", name + ".norm2", x, said, sizes.rate);
  return join(net, name + ".fed", name + ".norm3", feed_forward(net, name, x, sizes), x, sizes.rate);
}

ModelGraph build(const Spec& options, const SampleShape& shape, Sizes sizes) {
  require_options(options, {"hidden", "heads", "layers", "dropout"});
  const auto inner = sizes.inner / sizes.features;
  sizes.features = whole_option(options, "hidden", sizes.features, 1, 1 << 20);
  sizes.heads = whole_option(options, "heads", sizes.heads, 1, 1 << 20);
  sizes.inner = inner * sizes.features;
  sizes.layers = whole_option(options, "layers", sizes.layers, 1, 1000);
  sizes.rate = part_option(options, "dropout", sizes.rate);
  require_objective(options.name, shape, Objective::translation);
  GraphBuilder net(options.name);
  const int source = net.input("source", InputPart::source, {shape.source_length});
  const int target = net.input("target", InputPart::target, {shape.target_length - 1});
  const auto root = std::sqrt(static_cast<double>(sizes.features));
  const auto start = normal_weights(static_cast<float>(1 / root));
  const auto words_of = [&](const std::string& name, int words, int tied) {
    const int x = net.sinusoids(name + ".positions", net.embedding(name, words, shape.classes, sizes.features, {start, root, tied}));
    return net.dropout(name + ".dropout", x, sizes.rate);
  };
  int x = words_of("embedding", source, -1);
  const int table = 2;
  for (std::int64_t i = 0; i < sizes.layers; ++i) x = encoder_layer(net, fmt::format("encoder.layers.{}", i), x, source, sizes);
  const int memory = x;
  x = words_of("target_embedding", target, table);
  for (std::int64_t i = 0; i < sizes.layers; ++i) x = decoder_layer(net, fmt::format("decoder.layers.{}", i), x, memory, source, sizes);
  net.linear("generator", x, shape.classes, {.bias = false, .tied = table});
  return std::move(net).finish();
}

}  // namespace

/// The Transformer for translation: post-norm; one table of words for source, target and output, multiplied by
/// sqrt(features) where words come in; sinusoidal positions; dropout on sub-layers and embeddings.
/// Shape:   words of a source, and of a target as far as they are known -> the vocabulary, at each place of the target.
/// Size:    63,082,496 (base) and 214,245,376 (big) parameters with the paper's 37,000 words; it rounds to 65 and 213
///          million. Projections of attention have biases here.
/// Source:  Vaswani et al., NeurIPS 2017, table 3; matrices start after Glorot & Bengio 2010 and words with deviation
///          1/sqrt(features), as its authors' code does; names as torch.nn.Transformer. Options hidden (512 and 1024; the inner layers
///          are four times as wide), heads (8 and 16), layers (6, of each half) and dropout (0.1 and 0.3).
ModelGraph transformer(const Spec& options, const SampleShape& shape) { return build(options, shape, {512, 2048, 8, 6, 0.1}); }
ModelGraph transformer_big(const Spec& options, const SampleShape& shape) { return build(options, shape, {1024, 4096, 16, 6, 0.3}); }

}  // namespace ddl
