#include "ddl/nn/operators/cross_entropy.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include "ddl/core/error.h"
#include "ddl/nn/element_type.h"
#include "ddl/nn/kernels/cross_entropy.h"
#include "ddl/nn/operators/autograd_node.h"

namespace ddl {
namespace {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

template <typename F>
void for_rows(std::int64_t rows, std::int64_t classes, F&& f) {
  constexpr std::int64_t kElementsOfAThread = 8192;
  at::parallel_for(0, rows, std::max<std::int64_t>(1, kElementsOfAThread / std::max<std::int64_t>(1, classes)), f);
}

struct CrossEntropyNode final : torch::autograd::Node {
  SavedVariable logits;
  at::Tensor expected, log_sums;
  std::int64_t ignored = 0;
  double smoothing = 0;

  std::string name() const override { return "CrossEntropyBackward"; }
  void release_variables() override {
    const std::lock_guard lock(mutex_);
    logits.reset_data();
  }
  variable_list apply(variable_list&& gradients) override {
    const std::lock_guard lock(mutex_);
    if (!gradients[0].defined()) return variable_list(1);
    const auto x = logits.unpack();
    auto found = at::empty_like(x, x.options().requires_grad(false));
    const auto scale = gradients[0].item<float>();
    with_single_type(x, [&](auto zero) {
      using T = decltype(zero);
      const CrossEntropy<T> of{elements<T>(x), expected.const_data_ptr<std::int64_t>(), x.size(1), ignored, smoothing};
      for_rows(x.size(0), x.size(1), [&](std::int64_t first, std::int64_t last) { cross_entropy_gradient(of, first, last, log_sums.const_data_ptr<float>(), scale, places<T>(found)); });
    });
    return {found};
  }
};

}  // namespace

at::Tensor fast_cross_entropy(const at::Tensor& logits, const at::Tensor& expected, std::int64_t ignored, double smoothing) {
  const auto rows = logits.size(0), classes = logits.size(1);
  const auto dense = expected.contiguous();
  const auto* const wanted = dense.const_data_ptr<std::int64_t>();
  if (const auto* const wrong = std::find_if(wanted, wanted + rows, [&](std::int64_t each) { return each != ignored && (each < 0 || each >= classes); }); wrong != wanted + rows)
    throw Error(Code::invalid_argument, fmt::format("[cross entropy] a label names a class; got {} of row {}, expected 0 to {}", *wrong, wrong - wanted, classes - 1));
  const auto log_sums = at::empty({rows, 2}, logits.options().dtype(at::kFloat).requires_grad(false));
  std::vector<double> losses(static_cast<std::size_t>(rows));
  with_single_type(logits, [&](auto zero) {
    using T = decltype(zero);
    const CrossEntropy<T> of{elements<T>(logits), wanted, classes, ignored, smoothing};
    for_rows(rows, classes, [&](std::int64_t first, std::int64_t last) { cross_entropy_rows(of, first, last, log_sums.data_ptr<float>(), losses.data()); });
  });
  const auto loss = at::full({}, std::accumulate(losses.begin(), losses.end(), 0.0), log_sums.options());
  if (!torch::autograd::compute_requires_grad(logits)) return loss;
  auto node = make_node<CrossEntropyNode>();
  node->add_next_edge(torch::autograd::impl::gradient_edge(logits));
  node->logits = SavedVariable(logits, false);
  node->expected = dense;
  node->log_sums = log_sums;
  node->ignored = ignored;
  node->smoothing = smoothing;
  torch::autograd::set_history(loss, node);
  return loss;
}

}  // namespace ddl
