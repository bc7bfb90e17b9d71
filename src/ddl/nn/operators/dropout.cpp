#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>

#include "ddl/core/error.h"
#include "ddl/core/random.h"
#include "ddl/nn/dropout_kernel.h"
#include "ddl/nn/operators/operator.h"

namespace ddl {
namespace {

/// One key a sample: what it draws depends on nothing else, so that however a batch is divided the same elements fall.
std::vector<std::int64_t> keys_of(const OperatorContext& c) {
  // Other users of the seed draw from streams below.
  constexpr std::uint64_t kDropout = std::uint64_t{1} << 50;
  const auto layer = Random(c.options.seed, kDropout + static_cast<std::uint64_t>(c.number)).bits();
  const auto step = Random(layer, static_cast<std::uint64_t>(c.given.step)).bits();
  std::vector<std::int64_t> keys;
  for (const auto sample : c.given.samples) keys.push_back(static_cast<std::int64_t>(Random(step, static_cast<std::uint64_t>(sample)).bits()));
  return keys;
}

template <typename T>
void run(const at::Tensor& from, at::Tensor& to, const std::vector<std::int64_t>& keys, double rate) {
  const auto each = from.numel() / std::max<std::int64_t>(1, from.size(0));
  const auto* in = from.const_data_ptr<T>();
  auto* out = to.data_ptr<T>();
  const auto threshold = static_cast<std::uint32_t>(rate * 0x1p32);
  at::parallel_for(0, from.size(0), std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, each)), [&](std::int64_t begin, std::int64_t end) {
    for (auto i = begin; i < end; ++i)
      drop_elements(in + i * each, out + i * each, static_cast<std::uint32_t>(each), static_cast<std::uint64_t>(keys[static_cast<std::size_t>(i)]),
                    threshold, static_cast<T>(1 / (1 - rate)));
  });
}

/// Elements are numbered as they stand in [n, …], whatever their order in memory. On other devices and in types narrower
/// than fp32 the work is done in fp32 on the processor.
at::Tensor drop(const at::Tensor& from, const std::vector<std::int64_t>& keys, double rate) {
  const bool wide = from.scalar_type() == at::kDouble;
  const auto dense = from.to(at::kCPU, wide ? at::kDouble : at::kFloat).contiguous();
  auto to = at::empty_like(dense);
  if (wide)
    run<double>(dense, to, keys, rate);
  else
    run<float>(dense, to, keys, rate);
  return to.to(from.options());
}

struct Dropout : torch::autograd::Function<Dropout> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& from, const std::vector<std::int64_t>& keys, double rate) {
    context->saved_data["keys"] = keys;
    context->saved_data["rate"] = rate;
    return drop(from, keys, rate);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context, const torch::autograd::variable_list& gradients) {
    // What is kept of a gradient is scaled as what was kept of the values: the mask is drawn again, not stored.
    return {drop(gradients[0], context->saved_data["keys"].toIntVector(), context->saved_data["rate"].toDouble()), {}, {}};
  }
};

}  // namespace

/// Srivastava et al., JMLR 15, 2014, scaled in training so that evaluation needs nothing.
at::Tensor drop_out(const OperatorContext& c) {
  const auto& from = c.inputs[0];
  if (!c.training) return from;
  if (static_cast<std::int64_t>(c.given.samples.size()) != from.size(0))
    throw Error(Code::invalid_argument, fmt::format("[dropout] layer '{}' draws by the numbers of samples; got {} numbers for {} samples",
                                                    c.layer.name, c.given.samples.size(), from.size(0)));
  invariant(elements_of(c.layer.shape) <= std::numeric_limits<std::uint32_t>::max(), "a sample has fewer than 2^32 elements");
  return Dropout::apply(from, keys_of(c), c.layer.attributes.rate);
}

}  // namespace ddl
