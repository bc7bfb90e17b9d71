// Embedding, attention and recurrence.
#include <optional>

#include <c10/core/impl/LocalDispatchKeySet.h>

#include "ddl/data/dataset.h"
#include "ddl/nn/operators/operator.h"

namespace ddl {
namespace {

/// [n, length, heads * d] -> [n, heads, length, d].
at::Tensor by_heads(const at::Tensor& x, std::int64_t heads) { return x.unflatten(-1, {heads, x.size(-1) / heads}).transpose(1, 2); }

/// True where a query may look; undefined where it may look everywhere.
at::Tensor visible(const OperatorContext& c) {
  if (c.layer.inputs.size() < 3) return {};
  const auto words = c.inputs[2].ne(SampleShape::kPadding).unsqueeze(1).unsqueeze(1);
  if (!c.layer.attributes.causal) return words;
  const auto length = c.inputs[0].size(1);
  return words.logical_and(at::ones({length, length}, words.options()).tril());
}

}  // namespace

at::Tensor embed(const OperatorContext& c) {
  const auto found = at::embedding(c.own.parameters[0], c.inputs[0]);
  return c.layer.attributes.factor == 1 ? found : found.mul(c.layer.attributes.factor);
}

at::Tensor add_positions(const OperatorContext& c) {
  const auto& table = c.own.constants.empty() ? c.own.parameters[0] : c.own.constants[0];
  return c.inputs[0].add(table.narrow(0, 0, c.inputs[0].size(1)));
}

at::Tensor attend(const OperatorContext& c) {
  const auto features = c.layer.shape[1], heads = c.layer.attributes.heads;
  const auto &weight = c.own.parameters[0], &bias = c.own.parameters[1];
  std::vector<at::Tensor> parts;
  if (c.layer.inputs[0] == c.layer.inputs[1]) {
    parts = at::linear(c.inputs[0], weight, bias).chunk(3, -1);
  } else {
    parts = at::linear(c.inputs[1], weight.narrow(0, features, 2 * features), bias.narrow(0, features, 2 * features)).chunk(2, -1);
    parts.insert(parts.begin(), at::linear(c.inputs[0], weight.narrow(0, 0, features), bias.narrow(0, 0, features)));
  }
  const auto mask = visible(c);
  const auto mean = at::scaled_dot_product_attention(by_heads(parts[0], heads), by_heads(parts[1], heads), by_heads(parts[2], heads),
                                                     mask.defined() ? std::optional(mask) : std::nullopt, 0,
                                                     c.layer.attributes.causal && !mask.defined());
  return at::linear(mean.transpose(1, 2).flatten(2), c.own.parameters[2], c.own.parameters[3]);
}

at::Tensor run_lstm(const OperatorContext& c) {
  const auto hidden = c.layer.shape[1];
  // oneDNN trains no LSTM in 16 bits on most processors, and says so by failing: there it stays as wide as its parameters.
  std::optional<c10::impl::ExcludeDispatchKeyGuard> wide;
  const auto type = c.own.parameters[0].scalar_type();
  const bool on_processor = c.inputs[0].device().is_cpu();
  if (on_processor) wide.emplace(c10::autocast_dispatch_keyset);
  const bool has_first = c.layer.inputs.size() > 1;
  const auto as_wide = [&](const at::Tensor& x) { return on_processor ? x.to(type) : x; };
  const auto words = has_first ? at::cat({as_wide(c.inputs[1]).unsqueeze(1), as_wide(c.inputs[0])}, 1) : as_wide(c.inputs[0]);
  const auto start = at::zeros({1, words.size(0), hidden}, words.options());
  const auto all = std::get<0>(at::lstm(words, {start, start}, c.own.parameters, true, 1, 0, c.training, false, true));
  return has_first ? all.narrow(1, 1, all.size(1) - 1) : all;
}

}  // namespace ddl
