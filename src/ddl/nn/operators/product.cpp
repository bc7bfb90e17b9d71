#include "ddl/nn/operators/product.h"

#include <utility>
#include <vector>

#include <ATen/autocast_mode.h>
#include "ddl/nn/element_type.h"
#include "ddl/nn/multiplier.h"
#include "ddl/nn/operators/bias_gradient.h"
#include "ddl/nn/operators/samples.h"
#include "ddl/nn/operators/weighted_node.h"
#include "ddl/nn/weight_gradient.h"

namespace ddl {
namespace {

using torch::autograd::variable_list;

/// [out, …] as it lies in memory: rows of what an output is made of.
at::Tensor rows_of(const at::Tensor& weight) {
  return weight.dim() == 4 ? weight.permute({0, 2, 3, 1}).view({weight.size(0), -1}) : weight;
}

/// What a product reads of its input: a matrix with a row for each place.
at::Tensor rows_of_input(const at::Tensor& input, const std::optional<Windows>& windows) {
  if (!windows) return input.reshape({-1, input.size(-1)});
  if (windows->are_pixels()) return input.permute({0, 2, 3, 1}).view({windows->places(), windows->channels});
  auto seen = at::empty({windows->places(), windows->seen()}, input.options().memory_format(at::MemoryFormat::Contiguous));
  const auto bytes = input.element_size();
  for_samples(*windows, [&, from = static_cast<const std::byte*>(input.const_data_ptr()), to = static_cast<std::byte*>(seen.data_ptr())](const Windows& some, std::int64_t map, std::int64_t place) {
    unfold_windows(some, static_cast<std::size_t>(bytes), from + map * bytes, to + place * some.seen() * bytes);
  });
  return seen;
}

at::Tensor input_of_rows(const at::Tensor& rows, const std::vector<std::int64_t>& sizes, const std::optional<Windows>& windows) {
  if (!windows) return rows.view(sizes);
  if (windows->are_pixels()) return rows.view({windows->samples, windows->height, windows->width, windows->channels}).permute({0, 3, 1, 2});
  auto maps = at::empty(sizes, rows.options().memory_format(at::MemoryFormat::ChannelsLast));
  with_value_type(rows, [&](auto zero) {
    using T = decltype(zero);
    for_samples(*windows, [&, from = elements<T>(rows), to = places<T>(maps)](const Windows& some, std::int64_t map, std::int64_t place) { fold_windows(some, from + place * some.seen(), to + map); });
  });
  return maps;
}

at::Tensor product_of(const at::Tensor& left, const at::Tensor& right) {
  auto product = at::empty({left.size(0), right.size(1)}, plain_options(left));
  multiply_into(product, left, right);
  return product;
}

/// left right, as the gradient of a weight; undefined where it went its way already.
at::Tensor gradient_of(const at::Tensor& weight, const at::Tensor& left, const at::Tensor& right, Sharing sharing) {
  const auto write = [&](at::Tensor& to, bool adds) {
    auto rows = rows_of(to);
    multiply_into(rows, left, right, adds);
  };
  return put_gradient(weight, sharing, write, widened_bytes(weight, left));
}

struct ProductNode final : WeightedNode {
  std::optional<Windows> windows;
  at::Tensor narrowed;  ///< the weight in bf16, where the input is

  /// split_backward.cpp knows products by their names.
  std::string name() const override { return "ProductBackward"; }
  void release_variables() override {
    WeightedNode::release_variables();
    const std::lock_guard lock(mutex_);
    narrowed.reset();
  }

  variable_list apply(variable_list&& gradients) override {
    const std::lock_guard lock(mutex_);
    variable_list found(3);
    if (!gradients[0].defined()) return found;
    const auto factor = weight.unpack(), from = input.unpack();
    auto gradient = gradient_before(gradients[0]);
    if (windows) gradient = gradient.contiguous(at::MemoryFormat::ChannelsLast).permute({0, 2, 3, 1});
    gradient = laid_out_for_products(gradient.reshape({-1, factor.size(0)}));
    gradients.clear();
    if (task_should_compute_output(0)) found[0] = input_of_rows(product_of(gradient, rows_of(narrowed.defined() ? narrowed : factor)), from.sizes().vec(), windows);
    if (task_should_compute_output(2)) found[2] = bias_gradient(gradient, factor.scalar_type());
    if (task_should_compute_output(1)) found[1] = gradient_of(factor, gradient.t(), rows_of_input(from, windows), sharing);
    return found;
  }
};

}  // namespace

bool takes_product(const at::Tensor& input, const at::Tensor& weight, const NetworkOptions& options) {
  const auto type = input.scalar_type();
  return options.kernels == Kernels::fast && input.is_cpu() && computes_on(weight.scalar_type(), type) && input.numel() > 0 && (type == at::kBFloat16 || !at::autocast::is_autocast_enabled(at::kCPU));
}

at::Tensor narrowed(const at::Tensor& input, const NetworkOptions& options) {
  const bool narrows = options.kernels == Kernels::fast && input.is_cpu() && input.scalar_type() == at::kFloat && at::autocast::is_autocast_enabled(at::kCPU) &&
                       at::autocast::get_autocast_dtype(at::kCPU) == at::kBFloat16;
  return narrows ? input.to(at::kBFloat16) : input;
}

at::Tensor multiply(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias, Sharing sharing, const std::optional<Windows>& windows, bool rectifies) {
  at::Tensor out, narrow;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    if (input.scalar_type() != weight.scalar_type()) narrow = weight.to(input.scalar_type());
    const auto width = weight.size(0);
    auto sizes = input.sizes().vec();
    sizes.back() = width;
    if (windows) sizes = {windows->samples, width, windows->places_high, windows->places_wide};
    const auto read = rows_of_input(input, windows), by = rows_of(narrow.defined() ? narrow : weight);
    if (bias.defined()) {
      const auto rows = multiply_with_bias(read, by, bias, rectifies);
      out = windows ? rows.view({windows->samples, windows->places_high, windows->places_wide, width}).permute({0, 3, 1, 2}) : rows.view(sizes);
    } else {
      out = at::empty(sizes, input.options().requires_grad(false).memory_format(windows ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous));
      auto rows = windows ? out.permute({0, 2, 3, 1}).view({-1, width}) : out.view({-1, width});
      multiply_into(rows, read, by.t());
      if (rectifies) rows.relu_();
    }
  }
  return with_node<ProductNode>(std::move(out), input, weight, bias, sharing, rectifies, [&](ProductNode& node) {
    node.windows = windows;
    node.narrowed = narrow;
  });
}

}  // namespace ddl
