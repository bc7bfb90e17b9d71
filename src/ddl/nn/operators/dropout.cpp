#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>

#include "ddl/core/error.h"
#include "ddl/core/random.h"
#include "ddl/nn/kernels/dropout.h"
#include "ddl/nn/operators/dropout.h"
#include "ddl/nn/operators/operator.h"

namespace ddl {
namespace {

template <typename T>
void run(const at::Tensor& from, at::Tensor& to, const std::vector<std::int64_t>& keys, double rate, const std::vector<IndexRange>& runs) {
  const auto each = from.numel() / std::max<std::int64_t>(1, from.size(0));
  const auto* in = from.const_data_ptr<T>();
  auto* out = to.data_ptr<T>();
  const auto threshold = static_cast<std::uint32_t>(rate * 0x1p32);
  at::parallel_for(0, from.size(0), std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, each)), [&](std::int64_t begin, std::int64_t end) {
    for (auto i = begin; i < end; ++i) {
      auto at = i * each;
      for (const auto& [first, last] : runs) {
        drop_elements(in + at, out + at, static_cast<std::uint32_t>(last - first), static_cast<std::uint64_t>(keys[static_cast<std::size_t>(i)]), threshold,
                      static_cast<T>(1 / (1 - rate)), static_cast<std::uint32_t>(first));
        at += last - first;
      }
    }
  });
}

/// The finaliser of kernels/dropout.cpp on numbers of 32 bits that are held in 64: of products the low bits count alone, and those are
/// right although they overflow.
at::Tensor mix(at::Tensor x) {
  constexpr std::int64_t kLow = 0xffffffff;
  const auto fold = [&](int bits) { x.bitwise_xor_(x.bitwise_right_shift(bits)); };
  const auto times = [&](std::int64_t factor) { x.mul_(factor).bitwise_and_(kLow); };
  fold(16);
  times(0x85ebca6b);
  fold(13);
  times(0xc2b2ae35);
  fold(16);
  return x;
}

/// The numbers of the elements of `runs`, on a device.
at::Tensor numbers(const std::vector<IndexRange>& runs, const at::TensorOptions& options) {
  std::vector<at::Tensor> all;
  for (const auto& [first, last] : runs) all.push_back(at::arange(first, last, options));
  return all.size() == 1 ? all.front() : at::cat(all);
}

/// What drop_elements() keeps of those elements of each sample, by ATen's operators: for devices that our kernels do not reach.
at::Tensor kept(const at::Tensor& keys, const std::vector<IndexRange>& runs, double rate) {
  constexpr std::int64_t kLow = 0xffffffff;
  const auto key = keys.unsqueeze(1);
  const auto low = key.bitwise_and(kLow), high = key.bitwise_right_shift(32).bitwise_and(kLow);
  const auto drawn = mix(mix(numbers(runs, key.options()).bitwise_xor(low)).add_(high).bitwise_and_(kLow));
  return drawn.ge(static_cast<std::int64_t>(static_cast<std::uint32_t>(rate * 0x1p32)));
}

}  // namespace

namespace {

/// Elements are numbered as they stand in [n, …], whatever their order in memory: all of them, or those that were given.
std::vector<IndexRange> all_or(const std::vector<IndexRange>& given, const at::Tensor& from) {
  return given.empty() ? std::vector<IndexRange>{{0, from.numel() / std::max<std::int64_t>(1, from.size(0))}} : given;
}

/// In types narrower than fp32 the work is done in fp32.
at::Tensor wide_and_dense(const at::Tensor& from) { return from.to(from.scalar_type() == at::kDouble ? at::kDouble : at::kFloat).contiguous(); }

}  // namespace

/// One key a sample: what it draws depends on nothing else, so that however a batch is divided the same elements fall.
std::vector<std::int64_t> dropout_keys(const Layer& layer, int number, const std::vector<std::int64_t>& samples, std::int64_t step, std::uint64_t seed) {
  // Other users of the seed draw from streams below.
  constexpr std::uint64_t kDropout = std::uint64_t{1} << 50;
  // A part of a split network draws as the whole one.
  const int layer_number = layer.origin >= 0 ? layer.origin : number;
  const auto of_layer = Random(seed, kDropout + static_cast<std::uint64_t>(layer_number)).bits();
  const auto of_step = Random(of_layer, static_cast<std::uint64_t>(step)).bits();
  std::vector<std::int64_t> keys;
  for (const auto sample : samples) keys.push_back(static_cast<std::int64_t>(Random(of_step, static_cast<std::uint64_t>(sample)).bits()));
  return keys;
}

at::Tensor drop_by(const at::Tensor& from, const at::Tensor& keys, double rate, const std::vector<IndexRange>& runs) {
  const auto dense = wide_and_dense(from);
  const auto mask = kept(keys, all_or(runs, from), rate).reshape(from.sizes());
  const double factor = dense.scalar_type() == at::kDouble ? 1 / (1 - rate) : static_cast<double>(static_cast<float>(1 / (1 - rate)));
  return at::where(mask, dense.mul(factor), at::zeros({}, dense.options())).to(from.scalar_type());
}

at::Tensor drop(const at::Tensor& from, const std::vector<std::int64_t>& keys, double rate, bool aten, const std::vector<IndexRange>& given_runs) {
  if (aten || !from.is_cpu()) {
    const auto on_host = at::tensor(keys, at::kLong);
    return drop_by(from, from.is_cpu() ? on_host : on_host.pin_memory().to(from.device(), true), rate, given_runs);
  }
  const auto runs = all_or(given_runs, from);
  const bool wide = from.scalar_type() == at::kDouble;
  const auto dense = wide_and_dense(from);
  auto to = at::empty_like(dense);
  if (wide)
    run<double>(dense, to, keys, rate, runs);
  else
    run<float>(dense, to, keys, rate, runs);
  return to.to(from.options());
}

namespace {

/// What a layer's piece of its samples is, as autograd keeps it.
std::vector<std::int64_t> ends_of(const Layer& layer) {
  std::vector<std::int64_t> ends;
  if (layer.piece)
    for (const auto& [first, last] : runs_of(*layer.piece)) ends.insert(ends.end(), {first, last});
  return ends;
}

std::vector<IndexRange> runs_between(const std::vector<std::int64_t>& ends) {
  std::vector<IndexRange> runs;
  for (std::size_t i = 0; i < ends.size(); i += 2) runs.push_back({ends[i], ends[i + 1]});
  return runs;
}

/// Of keys that are where the values are.
struct DropoutThere : torch::autograd::Function<DropoutThere> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& from, const at::Tensor& keys, double rate, const Layer& layer) {
    const auto ends = ends_of(layer);
    context->save_for_backward({keys});
    context->saved_data["rate"] = rate;
    context->saved_data["runs"] = ends;
    return drop_by(from, keys, rate, runs_between(ends));
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context, const torch::autograd::variable_list& gradients) {
    const auto runs = runs_between(context->saved_data["runs"].toIntVector());
    return {drop_by(gradients[0], context->get_saved_variables()[0], context->saved_data["rate"].toDouble(), runs), {}, {}, {}};
  }
};

struct Dropout : torch::autograd::Function<Dropout> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& from, const std::vector<std::int64_t>& keys, double rate,
                            const Layer& layer) {
    context->saved_data["keys"] = keys;
    context->saved_data["rate"] = rate;
    const auto ends = ends_of(layer);
    context->saved_data["runs"] = ends;
    return drop(from, keys, rate, false, runs_between(ends));
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context, const torch::autograd::variable_list& gradients) {
    const auto runs = runs_between(context->saved_data["runs"].toIntVector());
    // What is kept of a gradient is scaled as what was kept of the values: the mask is drawn again, not stored.
    return {drop(gradients[0], context->saved_data["keys"].toIntVector(), context->saved_data["rate"].toDouble(), false, runs), {}, {}, {}};
  }
};

}  // namespace

std::vector<IndexRange> runs_of(const TensorPiece& piece) {
  // From the last dimension to the first: each index of what is before has the runs of what is behind it, which are one where that is whole.
  std::vector<IndexRange> runs{{0, 1}};
  std::int64_t inner = 1;
  for (auto d = static_cast<int>(piece.whole.size()); d-- > 0;) {
    const auto size = piece.whole[static_cast<std::size_t>(d)];
    const auto* const cut = piece.along(d);
    const bool whole_behind = runs.size() == 1 && runs[0] == IndexRange{0, inner};
    std::vector<IndexRange> all;
    for (const auto& [begin, end] : cut ? *cut : std::vector<IndexRange>{{0, size}}) {
      if (whole_behind)
        all.push_back({begin * inner, end * inner});
      else
        for (auto index = begin; index < end; ++index)
          for (const auto& run : runs) all.push_back({index * inner + run.begin, index * inner + run.end});
    }
    runs = std::move(all);
    inner *= size;
  }
  return runs;
}

/// Srivastava et al., JMLR 15, 2014, scaled in training so that evaluation needs nothing.
at::Tensor drop_out(const OperatorContext& c) {
  const auto& from = c.inputs[0];
  if (!c.training) return from;
  if (static_cast<std::int64_t>(c.given.samples.size()) != from.size(0))
    throw Error(Code::invalid_argument, fmt::format("[dropout] layer '{}' draws by the numbers of samples; got {} numbers for {} samples",
                                                    c.layer.name, c.given.samples.size(), from.size(0)));
  invariant(elements_of(c.layer.piece ? c.layer.piece->whole : c.layer.shape) <= std::numeric_limits<std::uint32_t>::max(), "a sample has fewer than 2^32 elements");
  if (c.given.draws.defined()) return DropoutThere::apply(from, c.given.draws.select(0, c.own.draws), c.layer.attributes.rate, c.layer);
  return Dropout::apply(from, dropout_keys(c.layer, c.number, c.given.samples, c.given.step, c.options.seed), c.layer.attributes.rate, c.layer);
}

}  // namespace ddl
