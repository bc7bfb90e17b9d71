#include "ddl/nn/operators/projections.h"

#include <array>

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include "ddl/nn/element_type.h"
#include "ddl/nn/gradient_edge.h"
#include "ddl/nn/multiplier.h"
#include "ddl/nn/operators/autograd_node.h"
#include "ddl/nn/operators/bias_gradient.h"
#include "ddl/nn/weight_gradient.h"

namespace ddl {
namespace {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

at::Tensor rows_of(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

/// Of the queries' and the others' rows of a weight or a bias.
std::array<at::Tensor, 2> parts_of(const at::Tensor& whole) {
  const auto features = whole.size(0) / 3;
  return {whole.narrow(0, 0, features), whole.narrow(0, features, 2 * features)};
}

at::Tensor project(const at::Tensor& from, const at::Tensor& weight, const at::Tensor& bias) {
  auto sizes = from.sizes().vec();
  sizes.back() = weight.size(0);
  return multiply_with_bias(rows_of(from), weight, bias).view(sizes);
}

/// Edges: asking, known, weight, bias.
struct ProjectionsNode final : torch::autograd::Node {
  SavedVariable asking, known, weight;
  at::Tensor narrowed;  ///< the weight in bf16, where what it multiplies is
  Sharing sharing = Sharing::others;

  /// split_backward.cpp knows products by their names.
  std::string name() const override { return "ProjectionsBackward"; }
  void release_variables() override {
    const std::lock_guard lock(mutex_);
    asking.reset_data();
    known.reset_data();
    weight.reset_data();
    narrowed.reset();
  }

  variable_list apply(variable_list&& gradients) override {
    const std::lock_guard lock(mutex_);
    variable_list found(4);
    if (!gradients[0].defined() && !gradients[1].defined()) return found;
    const auto factor = weight.unpack();
    const std::array<at::Tensor, 2> from{asking.unpack(), known.unpack()};
    const auto features = factor.size(0) / 3;
    std::array<at::Tensor, 2> rows;
    for (const std::size_t i : {0U, 1U}) {
      auto sizes = from[i].sizes().vec();
      sizes.back() = (i == 0 ? 1 : 2) * features;
      rows[i] = rows_of(gradients[i].defined() ? gradients[i].contiguous() : at::zeros(sizes, plain_options(from[i])));
    }
    gradients.clear();
    const auto by = parts_of(narrowed.defined() ? narrowed : factor);
    for (const std::size_t i : {0U, 1U}) {
      if (!task_should_compute_output(i)) continue;
      found[i] = at::empty(from[i].sizes(), plain_options(from[i]));
      auto to = found[i].view({-1, found[i].size(-1)});
      multiply_into(to, rows[i], by[i]);
    }
    if (task_should_compute_output(3)) {
      found[3] = at::empty({3 * features}, plain_options(factor));
      const auto to = parts_of(found[3]);
      for (const std::size_t i : {0U, 1U}) to[i].copy_(bias_gradient(rows[i], factor.scalar_type()));
    }
    if (task_should_compute_output(2))
      found[2] = put_gradient(
          factor, sharing,
          [&](at::Tensor& to, bool adds) {
            auto parts = parts_of(to);
            for (const std::size_t i : {0U, 1U}) multiply_into(parts[i], rows[i].t(), rows_of(from[i]), adds);
          },
          widened_bytes(factor, rows[0]));
    return found;
  }
};

}  // namespace

std::pair<at::Tensor, at::Tensor> project_parts(const at::Tensor& asking, const at::Tensor& known, const at::Tensor& weight, const at::Tensor& bias, Sharing sharing) {
  std::pair<at::Tensor, at::Tensor> out;
  at::Tensor narrow;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    if (asking.scalar_type() != weight.scalar_type()) narrow = weight.to(asking.scalar_type());
    const auto by = parts_of(narrow.defined() ? narrow : weight), added = parts_of(bias);
    out = {project(asking, by[0], added[0]), project(known, by[1], added[1])};
  }
  if (!torch::autograd::compute_requires_grad(asking, known, weight, bias)) return out;
  auto node = make_node<ProjectionsNode>();
  for (const auto& from : {asking, known, weight, bias}) node->add_next_edge(edge_of(from));
  node->asking = SavedVariable(asking, false);
  node->known = SavedVariable(known, false);
  node->weight = SavedVariable(weight, false);
  node->narrowed = narrow;
  node->sharing = sharing;
  torch::autograd::set_history(out.first, node);
  torch::autograd::set_history(out.second, node);
  return out;
}

}  // namespace ddl
