#include "ddl/nn/operators/batch_norm.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include "ddl/nn/element_type.h"
#include "ddl/nn/gradient_edge.h"
#include "ddl/nn/kernels/batch_norm.h"
#include "ddl/nn/operators/autograd_node.h"
#include "ddl/nn/threads.h"

namespace ddl {
namespace {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

/// Blocks of channels, divided among threads.
template <typename F>
void for_channels(std::int64_t rows, std::int64_t channels, F&& f) {
  const auto blocks = (channels + kChannelsAtOnce - 1) / kChannelsAtOnce;
  share_out(blocks, rows * kChannelsAtOnce, [&](std::int64_t begin, std::int64_t end) { f(begin * kChannelsAtOnce, std::min(channels, end * kChannelsAtOnce)); });
}

template <typename F>
void for_rows(std::int64_t rows, std::int64_t channels, F&& f) {
  share_out(rows, channels, f);
}

bool lies_for_us(const at::Tensor& maps, at::ScalarType type) {
  return maps.defined() && maps.is_cpu() && maps.dim() == 4 && maps.numel() > 0 && maps.scalar_type() == type && maps.is_contiguous(at::MemoryFormat::ChannelsLast);
}

double most(const NormaliseChain& chain) {
  return chain.activation != nullptr && chain.activation->kind == LayerKind::relu6 ? 6 : std::numeric_limits<double>::infinity();
}

/// Edges: maps, weight, bias and what was added.
struct NormaliseNode final : torch::autograd::Node {
  SavedVariable maps, out;
  at::Tensor scales;  ///< [4, channels]: factor, shift, mean, 1 / deviation
  bool activates = false;
  double most = 0;

  std::string name() const override { return "NormaliseBackward"; }
  void release_variables() override {
    const std::lock_guard lock(mutex_);
    maps.reset_data();
    out.reset_data();
    scales.reset();
  }

  template <typename T>
  variable_list run(const at::Tensor& x, const at::Tensor& y, const at::Tensor& gradient) {
    const auto channels = x.size(1), rows = x.numel() / channels;
    using W = Wide<T>;
    const W *const factor = scales.const_data_ptr<W>(), *const mean = factor + 2 * channels, *const inverse = factor + 3 * channels;
    NormaliseBackward<T> how{{factor, factor + channels}, elements<T>(x), y.defined() ? elements<T>(y) : nullptr, elements<T>(gradient), activates, static_cast<W>(most)};
    variable_list found(4);
    const bool passes = task_should_compute_output(3);
    if (passes && activates) found[3] = at::empty_like(x);
    std::vector<double> sum(static_cast<std::size_t>(channels)), product(sum.size());
    for_channels(rows, channels, [&](std::int64_t first, std::int64_t last) {
      gradient_moments(how, rows, channels, first, last, mean, found[3].defined() ? places<T>(found[3]) : nullptr, sum.data(), product.data());
    });
    if (passes && !activates) found[3] = gradient;
    // What was written once need not be found out again.
    if (passes) how.gradient = elements<T>(found[3]), how.activates = false;
    const auto vector = [&]() -> at::Tensor { return at::empty({channels}, scales.options()); };
    const at::Tensor weight = vector(), bias = vector(), offset = vector(), slope = vector();
    for (std::int64_t c = 0; c < channels; ++c) {
      const auto i = static_cast<std::size_t>(c);
      const double deviation = static_cast<double>(inverse[c]);
      weight.data_ptr<W>()[c] = static_cast<W>(product[i] * deviation);
      bias.data_ptr<W>()[c] = static_cast<W>(sum[i]);
      offset.data_ptr<W>()[c] = static_cast<W>(sum[i] / static_cast<double>(rows));
      slope.data_ptr<W>()[c] = static_cast<W>(product[i] * deviation * deviation / static_cast<double>(rows));
    }
    if (task_should_compute_output(1)) found[1] = weight;
    if (task_should_compute_output(2)) found[2] = bias;
    if (!task_should_compute_output(0)) return found;
    found[0] = at::empty_like(x);
    const Projection<T> projection{mean, offset.const_data_ptr<W>(), slope.const_data_ptr<W>()};
    for_rows(rows, channels, [&](std::int64_t first, std::int64_t last) { project_gradient(how, channels, first, last, projection, places<T>(found[0])); });
    return found;
  }

  variable_list apply(variable_list&& gradients) override {
    const std::lock_guard lock(mutex_);
    if (!gradients[0].defined()) return variable_list(4);
    const auto x = maps.unpack(), y = out.unpack(getptr());
    const auto gradient = gradients[0].contiguous(at::MemoryFormat::ChannelsLast);
    variable_list found;
    with_value_type(x, [&](auto zero) { found = run<decltype(zero)>(x, y, gradient); });
    return found;
  }
};

/// [4, channels], and the running statistics moved on.
template <typename T>
at::Tensor scales_of(const Layer& layer, const LayerTensors& own, const at::Tensor& maps) {
  using W = Wide<T>;
  const auto channels = maps.size(1), rows = maps.numel() / channels;
  std::vector<double> mean(static_cast<std::size_t>(channels)), squares(mean.size());
  for_channels(rows, channels,
               [&](std::int64_t first, std::int64_t last) { channel_moments(elements<T>(maps), rows, channels, first, last, mean.data(), squares.data()); });
  const auto scales = at::empty({4, channels}, plain_options(own.parameters[0]));
  W* const to = scales.template data_ptr<W>();
  const W *const weight = own.parameters[0].const_data_ptr<W>(), *const bias = own.parameters[1].const_data_ptr<W>();
  W *const running_mean = own.statistics[0].data_ptr<W>(), *const running_variance = own.statistics[1].data_ptr<W>();
  const double newest = layer.attributes.momentum, count = static_cast<double>(rows);
  for (std::int64_t c = 0; c < channels; ++c) {
    const auto i = static_cast<std::size_t>(c);
    const double inverse = 1 / std::sqrt(squares[i] / count + layer.attributes.epsilon), factor = static_cast<double>(weight[c]) * inverse;
    to[c] = static_cast<W>(factor);
    to[channels + c] = static_cast<W>(static_cast<double>(bias[c]) - mean[i] * factor);
    to[2 * channels + c] = static_cast<W>(mean[i]);
    to[3 * channels + c] = static_cast<W>(inverse);
    running_mean[c] = static_cast<W>(newest * mean[i] + (1 - newest) * static_cast<double>(running_mean[c]));
    // Of one value there is no variance.
    if (rows > 1) running_variance[c] = static_cast<W>(newest * squares[i] / (count - 1) + (1 - newest) * static_cast<double>(running_variance[c]));
  }
  return scales;
}

}  // namespace

bool takes_batch_norm(const Layer& layer, const at::Tensor& maps, const NetworkOptions& options) {
  return options.kernels == Kernels::fast && !layer.frozen && maps.defined() && computes_on(options.type, maps.scalar_type()) && lies_for_us(maps, maps.scalar_type());
}

NormaliseChain normalise_chain(const std::vector<Layer>& layers, const std::vector<std::size_t>& last_use, std::size_t at, std::size_t last, const std::vector<at::Tensor>& values) {
  NormaliseChain chain;
  // Whether the next layer is the only one that reads the chain's.
  const auto goes_on = [&](LayerKind kind) {
    const auto next = at + chain.layers;
    return next < last && layers[next].kind == kind && last_use[next - 1] == next;
  };
  const auto& maps = values[static_cast<std::size_t>(layers[at].inputs[0])];
  if (goes_on(LayerKind::add)) {
    const auto& inputs = layers[at + 1].inputs;
    const auto other = inputs[0] == static_cast<int>(at) ? inputs[1] : inputs[0];
    if (const auto& added = values[static_cast<std::size_t>(other)]; other != static_cast<int>(at) && lies_for_us(added, maps.scalar_type())) {
      chain.added = added;
      ++chain.layers;
    }
  }
  if (goes_on(LayerKind::relu) || goes_on(LayerKind::relu6)) chain.activation = &layers[at + chain.layers++];
  return chain;
}

at::Tensor normalise_and(const NormaliseChain& chain, const Layer& layer, const LayerTensors& own, const at::Tensor& maps) {
  at::Tensor out, scales;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    out = at::empty_like(maps);
    with_value_type(maps, [&](auto zero) {
      using T = decltype(zero);
      scales = scales_of<T>(layer, own, maps);
      const auto channels = maps.size(1);
      const auto* const factor = scales.const_data_ptr<Wide<T>>();
      const Normalise<T> how{{factor, factor + channels}, chain.added.defined() ? elements<T>(chain.added) : nullptr, chain.activation != nullptr, static_cast<Wide<T>>(most(chain))};
      for_rows(maps.numel() / channels, channels,
               [&](std::int64_t first, std::int64_t last) { normalise_rows(elements<T>(maps), places<T>(out), channels, first, last, how); });
    });
  }
  if (!torch::autograd::compute_requires_grad(maps, own.parameters[0], own.parameters[1], chain.added)) return out;
  auto node = make_node<NormaliseNode>();
  for (const auto& from : {maps, own.parameters[0], own.parameters[1], chain.added}) node->add_next_edge(edge_of(from));
  node->maps = SavedVariable(maps, false);
  node->scales = scales;
  node->activates = chain.activation != nullptr;
  node->most = most(chain);
  torch::autograd::set_history(out, node);
  if (node->activates && chain.added.defined()) node->out = SavedVariable(out, true);
  return out;
}

}  // namespace ddl
