#include "ddl/nn/operators/max_pool.h"

#include <array>
#include <utility>

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include "ddl/nn/element_type.h"
#include "ddl/nn/gradient_edge.h"
#include "ddl/nn/kernels/max_pool.h"
#include "ddl/nn/matrix_products.h"
#include "ddl/nn/operators/autograd_node.h"
#include "ddl/nn/operators/samples.h"

namespace ddl {
namespace {

using torch::autograd::variable_list;

/// Maps of one channel lie both ways; few channels make short loops.
at::MemoryFormat format_of(const at::Tensor& maps) { return maps.is_contiguous() ? at::MemoryFormat::Contiguous : at::MemoryFormat::ChannelsLast; }

/// Edge: maps.
struct MaxPoolNode final : torch::autograd::Node {
  at::Tensor where;
  Windows windows{};
  at::MemoryFormat format{};

  std::string name() const override { return "MaxPoolBackward"; }
  void release_variables() override {
    const std::lock_guard lock(mutex_);
    where.reset();
  }

  variable_list apply(variable_list&& gradients) override {
    const std::lock_guard lock(mutex_);
    variable_list found(1);
    if (!gradients[0].defined()) return found;
    TORCH_CHECK(where.defined(), "a graph is gone through backward once");
    const auto gradient = gradients[0].contiguous(format);
    found[0] = at::empty({windows.samples, windows.channels, windows.height, windows.width}, gradient.options().requires_grad(false).memory_format(format));
    with_value_type(gradient, [&](auto zero) {
      using T = decltype(zero);
      const T* const from = elements<T>(gradient);
      const auto* const was = where.const_data_ptr<std::uint8_t>();
      T* const to = places<T>(found[0]);
      for_samples(windows, [&](const Windows& some, std::int64_t map, std::int64_t place) {
        const auto made = place * some.channels;
        format == at::MemoryFormat::Contiguous ? max_pool_planes_backward(some, from + made, was + made, to + map) : max_pool_pixels_backward(some, from + made, was + made, to + map);
      });
    });
    return found;
  }
};

}  // namespace

bool takes_max_pool(const Attributes& of, const at::Tensor& maps, const NetworkOptions& options) {
  const bool whole = (of.padding_after.height < 0 || of.padding_after.height == of.padding.height) && (of.padding_after.width < 0 || of.padding_after.width == of.padding.width);
  return options.kernels == Kernels::fast && whole && of.kernel.height * of.kernel.width <= kPlacesOfAWindow && maps.is_cpu() && maps.dim() == 4 && maps.numel() > 0 &&
         computes_on(options.type, maps.scalar_type()) && (maps.is_contiguous() || maps.is_contiguous(at::MemoryFormat::ChannelsLast));
}

at::Tensor most_of_windows(const Attributes& of, const at::Tensor& maps, const Pair& padding, bool rectifies) {
  const auto windows = windows_over(of, {maps.size(0), maps.size(1), maps.size(2), maps.size(3)}, padding);
  const auto format = format_of(maps);
  const bool learns = torch::autograd::compute_requires_grad(maps);
  at::Tensor out, where;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    const std::array<std::int64_t, 4> sizes{windows.samples, windows.channels, windows.places_high, windows.places_wide};
    const auto options = maps.options().requires_grad(false).memory_format(format);
    out = at::empty(sizes, options);
    if (learns) where = at::empty({out.numel()}, maps.options().requires_grad(false).dtype(at::kByte));
    with_value_type(maps, [&](auto zero) {
      using T = decltype(zero);
      const T* const from = elements<T>(maps);
      T* const to = places<T>(out);
      auto* const at = learns ? where.data_ptr<std::uint8_t>() : nullptr;
      for_samples(windows, [&](const Windows& some, std::int64_t map, std::int64_t place) {
        const auto made = place * some.channels;
        auto* const of_some = at == nullptr ? nullptr : at + made;
        format == at::MemoryFormat::Contiguous ? max_pool_planes(some, from + map, rectifies, to + made, of_some) : max_pool_pixels(some, from + map, rectifies, to + made, of_some);
      });
    });
  }
  if (!learns) return out;
  auto node = make_node<MaxPoolNode>();
  node->add_next_edge(edge_of(maps));
  node->where = where;
  node->windows = windows;
  node->format = format;
  torch::autograd::set_history(out, node);
  return out;
}

}  // namespace ddl
