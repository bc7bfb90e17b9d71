// Embedding, attention and recurrence.
#include <optional>
#include <tuple>

#include <c10/core/impl/LocalDispatchKeySet.h>

#include "ddl/data/dataset.h"
#include "ddl/nn/operators/attention.h"
#include "ddl/nn/operators/look_up.h"
#include "ddl/nn/operators/operator.h"
#include "ddl/nn/operators/product.h"
#include "ddl/nn/operators/projections.h"

namespace ddl {
namespace {

/// [n, length, heads * d] -> [n, heads, length, d].
at::Tensor by_heads(const at::Tensor& x, std::int64_t heads) { return x.unflatten(-1, {heads, x.size(-1) / heads}).transpose(1, 2); }

/// Of a piece of the places, the number of the first.
std::int64_t first_place(const Layer& layer) {
  const auto* const places = layer.piece ? layer.piece->along(0) : nullptr;
  return places ? places->front().begin : 0;
}

/// Causal attention of a piece of the places to all.
at::Tensor seen_from(const OperatorContext& c) {
  const auto options = c.inputs[0].options().dtype(at::kLong);
  const auto seen = c.inputs[1].size(1), first = first_place(c.layer);
  return at::arange(seen, options).le(at::arange(first, first + c.inputs[0].size(1), options).unsqueeze(1)).unsqueeze(0).unsqueeze(0);
}

/// True where a query may look; undefined where it may look everywhere.
at::Tensor visible(const OperatorContext& c) {
  const bool in_pieces = c.layer.attributes.causal && c.layer.inputs[0] != c.layer.inputs[1];
  if (c.layer.inputs.size() < 3) return in_pieces ? seen_from(c) : at::Tensor();
  const auto words = c.inputs[2].ne(SampleShape::kPadding).unsqueeze(1).unsqueeze(1);
  if (!c.layer.attributes.causal) return words;
  if (in_pieces) return words.logical_and(seen_from(c));
  const auto length = c.inputs[0].size(1);
  return words.logical_and(at::ones({length, length}, words.options()).tril());
}

at::Tensor project_whole(const OperatorContext& c, const at::Tensor& from, const at::Tensor& weight, const at::Tensor& bias) {
  const auto input = narrowed(from, c.options);
  return takes_product(input, weight, c.options) ? multiply(input, weight, bias, c.own.sharing) : at::linear(input, weight, bias);
}

}  // namespace

at::Tensor embed(const OperatorContext& c) {
  const auto& words = c.inputs[0];
  const auto& table = c.own.parameters[0];
  const auto rows_of = [&](const at::Tensor& numbers) { return takes_look_up(table, c.options) ? look_up(numbers, table, c.own.sharing) : at::embedding(table, numbers); };
  const auto [begin, end] = c.layer.attributes.words;
  at::Tensor found;
  if (end > begin) {
    const auto here = words.ge(begin).logical_and(words.lt(end)).unsqueeze(-1);
    const auto vectors = rows_of(words.sub(begin).clamp(0, end - begin - 1));
    found = at::where(here, vectors, at::zeros({}, vectors.options()));
  } else {
    found = rows_of(words);
  }
  return c.layer.attributes.factor == 1 ? found : found.mul(c.layer.attributes.factor);
}

at::Tensor add_positions(const OperatorContext& c) {
  const auto& table = c.own.constants.empty() ? c.own.parameters[0] : c.own.constants[0];
  return c.inputs[0].add(table.narrow(0, c.past ? c.past->places() : first_place(c.layer), c.inputs[0].size(1)));
}

at::Tensor attend(const OperatorContext& c) {
  const auto &weight = c.own.parameters[0], &bias = c.own.parameters[1];
  // Of a part of a split network's heads, there are fewer than the layer gives out.
  const auto features = weight.size(0) / 3, heads = c.layer.attributes.heads;
  const bool itself = c.layer.inputs[0] == c.layer.inputs[1];
  const auto project = [&](const at::Tensor& from, std::int64_t first, std::int64_t parts) {
    return at::linear(from, weight.narrow(0, first * features, parts * features), bias.narrow(0, first * features, parts * features));
  };
  const auto out = [&](const at::Tensor& mean) { return project_whole(c, mean, c.own.parameters[2], c.own.parameters.size() > 3 ? c.own.parameters[3] : at::Tensor()); };
  const auto mask = visible(c);
  at::Tensor queries, keys, values;
  if (itself) {
    const auto all = project_whole(c, c.inputs[0], weight, bias);
    const Attended attended{all, all, heads, features, c.layer.attributes.causal && !mask.defined(), mask};
    if (!c.past && attends_by_blocks(attended, c.options)) return out(attend_by_blocks(attended));
    const auto parts = all.chunk(3, -1);
    queries = by_heads(parts[0], heads), keys = by_heads(parts[1], heads), values = by_heads(parts[2], heads);
    if (c.past) std::tie(keys, values) = c.past->extend(c.number, keys, values);
  } else {
    at::Tensor asking, known;
    const auto from = narrowed(c.inputs[0], c.options), others = narrowed(c.inputs[1], c.options);
    const bool together = !c.past && takes_product(from, weight, c.options) && takes_product(others, weight, c.options) && from.scalar_type() == others.scalar_type();
    if (together)
      std::tie(asking, known) = project_parts(from, others, weight, bias, c.own.sharing);
    else
      asking = project(c.inputs[0], 0, 1);
    queries = by_heads(asking, heads);
    if (c.past && c.past->of(c.number).first.defined()) {
      keys = c.past->of(c.number).first, values = c.past->of(c.number).second;
    } else {
      if (!together) known = project(c.inputs[1], 1, 2);
      const Attended attended{asking, known, heads, features, c.layer.attributes.causal && !mask.defined(), mask};
      if (!c.past && attends_by_blocks(attended, c.options)) return out(attend_by_blocks(attended));
      const auto parts = known.chunk(2, -1);
      keys = by_heads(parts[0], heads), values = by_heads(parts[1], heads);
      if (c.past) c.past->of(c.number) = {keys, values};
    }
  }
  // The newest place sees all that are past.
  const bool causal = c.layer.attributes.causal && !mask.defined() && !c.past;
  const auto mean = at::scaled_dot_product_attention(queries, keys, values, mask.defined() ? std::optional(mask) : std::nullopt, 0, causal);
  return out(mean.transpose(1, 2).flatten(2));
}

at::Tensor run_lstm(const OperatorContext& c) {
  const auto hidden = c.layer.shape[1];
  // oneDNN trains no LSTM in 16 bits on most processors, and says so by failing: there it stays as wide as its parameters.
  std::optional<c10::impl::ExcludeDispatchKeyGuard> wide;
  const auto type = c.own.parameters[0].scalar_type();
  const bool on_processor = c.inputs[0].device().is_cpu();
  if (on_processor) wide.emplace(c10::autocast_dispatch_keyset);
  const auto as_wide = [&](const at::Tensor& x) { return on_processor ? x.to(type) : x; };
  auto words = as_wide(c.inputs[0]);
  auto state = at::zeros({1, words.size(0), hidden}, words.options()), cell = state;
  auto* const kept = c.past ? &c.past->of(c.number) : nullptr;
  const bool begun = kept && kept->first.defined();
  if (begun) state = kept->first.unsqueeze(0), cell = kept->second.unsqueeze(0);
  const bool has_first = c.layer.inputs.size() > 1 && !begun;
  if (has_first) words = at::cat({as_wide(c.inputs[1]).unsqueeze(1), words}, 1);
  const auto [all, last_state, last_cell] = at::lstm(words, {state, cell}, c.own.parameters, true, 1, 0, c.training, false, true);
  if (kept) *kept = {last_state.squeeze(0), last_cell.squeeze(0)};
  return has_first ? all.narrow(1, 1, all.size(1) - 1) : all;
}

}  // namespace ddl
