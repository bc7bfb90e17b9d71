// What networks that are split among workers have besides (split/split.h).
#include "ddl/core/error.h"
#include "ddl/nn/operators/operator.h"

namespace ddl {

/// Only what moves nothing between parts: what passes as it is, and what leaves a part of what is here.
at::Tensor exchange(const OperatorContext& c) {
  const auto& how = *c.layer.exchange;
  const auto& from = c.inputs[0];
  if (how.forward == Move::none) return from;
  invariant(how.forward == Move::slice, "who runs the parts of a network does what they exchange");
  const auto dimension = how.dimension + 1;
  std::vector<at::Tensor> pieces;
  for (const auto& [begin, end] : how.after[static_cast<std::size_t>(how.part)]) pieces.push_back(from.narrow(dimension, begin, end - begin));
  return pieces.size() == 1 ? pieces.front() : at::cat(pieces, dimension);
}

at::Tensor add_bias(const OperatorContext& c) {
  const auto& bias = c.own.parameters[0];
  return c.inputs[0].add(c.inputs[0].dim() == 4 ? bias.view({-1, 1, 1}) : bias);
}

/// Means, then sums of squared deviations from them, a sample.
at::Tensor take_moments(const OperatorContext& c) {
  const auto& maps = c.inputs[0];
  const auto [variance, mean] = at::var_mean(maps, {0, 2, 3}, 0);
  return at::cat({mean, variance.mul(static_cast<double>(maps.size(2) * maps.size(3)))}).view({1, 1, -1});
}

namespace {

struct Moments {
  at::Tensor mean, squares;  ///< of each channel; the sum of squared deviations from the mean, a sample
  double pixels = 0;         ///< of a sample's map
};

/// Moments of parts [1, parts, 2 channels] are put together as Chan, Golub & LeVeque, COMPSTAT 1982: no sum of squares whose digits cancel.
Moments of_all_parts(const at::Tensor& moments, const std::vector<std::int64_t>& counts) {
  Moments whole;
  const std::vector<double> pixels(counts.begin(), counts.end());
  for (const auto each : pixels) whole.pixels += each;
  const auto parts = static_cast<std::int64_t>(counts.size());
  const auto all = moments.view({parts, 2, moments.numel() / (2 * parts)});
  const auto means = all.select(1, 0), squares = all.select(1, 1);
  const auto weight = at::tensor(pixels, all.options().requires_grad(false)).unsqueeze(1);
  whole.mean = means.mul(weight.div(whole.pixels)).sum(0);
  whole.squares = squares.sum(0).add(means.sub(whole.mean).square().mul(weight).sum(0));
  return whole;
}

}  // namespace

at::Tensor merge_moments(const OperatorContext& c) {
  const auto merged = of_all_parts(c.inputs[0], c.layer.attributes.counts);
  return at::cat({merged.mean, merged.squares}).view({1, 1, -1});
}

at::Tensor normalise_by_moments(const OperatorContext& c) {
  const auto& a = c.layer.attributes;
  const auto& maps = c.inputs[0];
  auto running_mean = c.own.statistics[0], running_variance = c.own.statistics[1];
  at::Tensor mean = running_mean, variance = running_variance;
  if (c.training) {
    const auto whole = of_all_parts(c.inputs[1], a.counts);
    const auto pixels = whole.pixels * static_cast<double>(maps.size(0));
    mean = whole.mean;
    variance = whole.squares.div(whole.pixels);
    const c10::NoGradGuard still;
    running_mean.lerp_(mean.detach(), a.momentum);
    running_variance.lerp_(variance.detach().mul(pixels / (pixels - 1)), a.momentum);
  }
  const auto factor = variance.add(a.epsilon).rsqrt().mul(c.own.parameters[0]);
  const auto shift = c.own.parameters[1].sub(mean.mul(factor));
  return maps.mul(factor.view({-1, 1, 1})).add(shift.view({-1, 1, 1}));
}

}  // namespace ddl
