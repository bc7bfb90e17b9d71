#include <cmath>

#include "ddl/core/error.h"
#include "ddl/nn/builtin.h"
#include "ddl/nn/networks/common.h"

namespace ddl {

/// A decoder that says the next word: pre-norm, learnt positions, GELU, the table of words tied to the output.
/// Options: hidden, layers, heads (768, 12, 12: GPT-2 small); seq: places it knows, and vocab: words it knows, both at least
///          and unless told those of the samples; dropout (0.1) on embeddings and sub-layers, none on attention weights.
/// Shape:   words as far as they are known -> the vocabulary, at each place.
/// Size:    124,439,808 parameters with 1,024 places and 50,257 words.
/// Source:  Radford et al., Language Models are Unsupervised Multitask Learners, 2019; matrices start with deviation 0.02,
///          those that end in the residual stream with 0.02/sqrt(2 layers), positions with 0.01, as its code and section 2.3.
ModelGraph gpt(const Spec& options, const SampleShape& shape) {
  require_options(options, {"hidden", "layers", "heads", "seq", "vocab", "dropout"});
  require_objective("gpt", shape, Objective::language);
  const auto hidden = whole_option(options, "hidden", 768, 1, 1 << 20), layers = whole_option(options, "layers", 12, 1, 1000);
  const auto heads = whole_option(options, "heads", 12, 1, hidden);
  const std::int64_t length = shape.target_length - 1, classes = shape.classes;
  const auto places = whole_option(options, "seq", length, 1, 1 << 24), words = whole_option(options, "vocab", classes, 1, 1 << 24);
  const double rate = part_option(options, "dropout", 0.1);
  if (words < classes) throw Error(Code::invalid_argument, fmt::format("[gpt] vocab is too small for the data; got {}, expected at least {}", words, classes));
  if (places < length) throw Error(Code::invalid_argument, fmt::format("[gpt] seq is too short for the data; got {}, expected at least {}", places, length));
  if (hidden % heads != 0) throw Error(Code::invalid_argument, fmt::format("[gpt] hidden divides among heads; got {} and {}", hidden, heads));

  const auto start = normal_weights(0.02F), residual = normal_weights(static_cast<float>(0.02 / std::sqrt(2.0 * static_cast<double>(layers))));
  GraphBuilder net("gpt");
  const int target = net.input("target", InputPart::target, {length});
  const int table = net.embedding("wte", target, words, hidden, {start});
  int x = net.dropout("drop", net.learnt_positions("wpe", table, places, normal_weights(0.01F)), rate);
  for (std::int64_t i = 0; i < layers; ++i) {
    const auto name = fmt::format("h.{}", i);
    int y = net.self_attention(name + ".attn", net.layer_norm(name + ".ln_1", x), {.heads = heads, .causal = true, .weight = start, .output = residual});
    x = net.add(name + ".attn.add", net.dropout(name + ".attn.drop", y, rate), x);
    y = net.linear(name + ".mlp.c_fc", net.layer_norm(name + ".ln_2", x), 4 * hidden, {.weight = start, .zero_bias = true});
    y = net.linear(name + ".mlp.c_proj", net.gelu(name + ".mlp.act", y), hidden, {.weight = residual, .zero_bias = true});
    x = net.add(name + ".mlp.add", net.dropout(name + ".mlp.drop", y, rate), x);
  }
  net.linear("lm_head", net.layer_norm("ln_f", x), words, {.bias = false, .tied = table});
  return std::move(net).finish();
}

}  // namespace ddl
