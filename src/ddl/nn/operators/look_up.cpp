#include "ddl/nn/operators/look_up.h"

#include <mutex>
#include <utility>

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include "ddl/nn/element_type.h"
#include "ddl/nn/gradient_edge.h"
#include "ddl/nn/kernels/row_sums.h"
#include "ddl/nn/operators/autograd_node.h"
#include "ddl/nn/operators/columns.h"
#include "ddl/nn/weight_gradient.h"

namespace ddl {
namespace {

using torch::autograd::variable_list;

/// `words` [n], `rows` [n, features], `to` [rows, features]; all contiguous.
void add_rows_to(const at::Tensor& to, const at::Tensor& words, const at::Tensor& rows, bool adds) {
  if (!adds) to.zero_();
  const auto count = rows.size(0), features = rows.size(1);
  // By columns: whoever reads a word twice adds in the order of words, however many threads there are.
  with_type(to, [&](auto zero) {
    using T = decltype(zero);
    share_out_columns(count, features, [&, numbers = words.const_data_ptr<std::int64_t>(), from = elements<T>(rows), into = places<T>(to)](std::int64_t first, std::int64_t some) {
      add_rows({count, some, features}, numbers, from + first, into + first);
    });
  });
}

/// Whether rows go to autograd by themselves: where somebody makes, made or gathers a gradient that they are added to. An optimizer that takes grad() is given no sparse one.
bool leaves_rows(const at::Tensor& table, Sharing sharing) {
  if (sharing == Sharing::none || !table.is_leaf()) return false;
  if (returns_gradients()) return sharing == Sharing::product;
  return has_hook(table) || (table.grad().defined() && !table.grad().is_sparse());
}

struct LookUpNode final : torch::autograd::Node {
  torch::autograd::SavedVariable words, table;
  Sharing sharing = Sharing::others;

  std::string name() const override { return "LookUpBackward"; }
  void release_variables() override {
    const std::lock_guard lock(mutex_);
    words.reset_data();
    table.reset_data();
  }

  variable_list apply(variable_list&& gradients) override {
    const std::lock_guard lock(mutex_);
    variable_list found(1);
    if (!gradients[0].defined() || !task_should_compute_output(0)) return found;
    const auto of = table.unpack();
    const auto numbers = words.unpack().reshape({-1}).contiguous(), rows = gradients[0].reshape({-1, of.size(1)}).contiguous();
    gradients.clear();
    if (leaves_rows(of, sharing))
      found[0] = at::_sparse_coo_tensor_unsafe(numbers.unsqueeze(0), rows, of.sizes(), plain_options(of).layout(at::kSparse));
    else
      found[0] = put_gradient(of, sharing, [&](at::Tensor& to, bool adds) { add_rows_to(to, numbers, rows, adds); });
    return found;
  }
};

}  // namespace

bool takes_look_up(const at::Tensor& table, const NetworkOptions& options) {
  return options.kernels == Kernels::fast && table.is_cpu() && (table.scalar_type() == at::kFloat || table.scalar_type() == at::kDouble) && table.is_contiguous();
}

at::Tensor look_up(const at::Tensor& words, const at::Tensor& table, Sharing sharing) {
  at::Tensor out;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    out = at::embedding(table, words);
  }
  if (!torch::autograd::compute_requires_grad(table)) return out;
  auto node = make_node<LookUpNode>();
  node->add_next_edge(edge_of(table));
  node->words = torch::autograd::SavedVariable(words, false);
  node->table = torch::autograd::SavedVariable(table, false);
  node->sharing = sharing;
  torch::autograd::set_history(out, node);
  return out;
}

void put_rows(const at::Tensor& sparse, const at::Tensor& to, bool adds) { add_rows_to(to, sparse._indices()[0].contiguous(), sparse._values().contiguous(), adds); }

}  // namespace ddl
