#include "ddl/nn/operators/look_up.h"

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "ddl/nn/gradient_place.h"
#include "ddl/nn/graph_builder.h"
#include "ddl/nn/network.h"
#include "ddl/nn/one_thread_testing.h"
#include "ddl/nn/operators/product.h"
#include "ddl/nn/sharing.h"
#include "ddl/nn/tensors_testing.h"

namespace ddl {
namespace {

constexpr std::int64_t kRows = 40, kFeatures = 150;  // more than a thread's block of columns

at::Tensor table_of(at::ScalarType type = at::kDouble) { return at::randn({kRows, kFeatures}, at::kDouble).to(type).requires_grad_(); }
/// Some more than once.
at::Tensor some_words() { return at::tensor({3, 17, 3, 39, 0, 3}, at::kLong).view({2, 3}); }

/// Gathers the gradient of a table in memory of its own, as buckets do.
struct Gathered {
  at::Tensor memory;
  int whole = 0, in_part = 0, by_autograd = 0;

  struct Hook final : GradientPlace {
    Gathered& all;
    bool filled = false;
    explicit Hook(Gathered& to) : all(to) {}
    void operator()(const at::Tensor& leaf) override {
      auto& gradient = leaf.mutable_grad();
      if (!gradient.defined()) return;
      ++all.by_autograd;
      if (gradient.is_sparse())
        put_rows(gradient, all.memory, filled);
      else
        filled ? all.memory.add_(gradient) : all.memory.copy_(gradient);
      filled = true;
      gradient.reset();
    }
    std::optional<Place> place() override { return Place{all.memory, filled}; }
    void arrived(bool whole, std::int64_t) override {
      ++(whole ? all.whole : all.in_part);
      filled = true;
    }
  };
  explicit Gathered(const at::Tensor& table) : memory(at::full_like(table, 17).detach()) { torch::autograd::impl::set_post_acc_grad_hooks(table, std::make_unique<Hook>(*this)); }
};

TEST(LookUp, IsATensEmbedding) {
  at::manual_seed(1);
  for (const auto type : {at::kFloat, at::kDouble}) {
    const auto table = table_of(type), other = table.detach().clone().requires_grad_(), words = some_words();
    const auto ours = look_up(words, table, Sharing::none), atens = at::embedding(other, words);
    EXPECT_TRUE(ours.equal(atens));
    const auto weights = at::randn(ours.sizes(), ours.options());
    ours.mul(weights).sum().backward();
    atens.mul(weights).sum().backward();
    EXPECT_TRUE(table.grad().equal(other.grad()));
  }
  const auto table = table_of();
  EXPECT_THROW(look_up(at::full({1}, kRows, at::kLong), table, Sharing::none), c10::IndexError);
  const auto loss = look_up(some_words(), table, Sharing::none).sum();
  loss.backward();
  EXPECT_THROW(loss.backward(), c10::Error);
}

TEST(LookUp, SeveralThreadsAddInTheSameOrder) {
  at::manual_seed(2);
  const auto words = at::randint(kRows, {4000}, at::kLong);
  const auto weights = at::randn({4000, kFeatures});
  const auto table = table_of(at::kFloat);
  const auto gradient = [&] {
    table.mutable_grad().reset();
    look_up(words, table, Sharing::none).mul(weights).sum().backward();
    return table.grad().clone();
  };
  at::Tensor one;
  {
    const OneThread guard;
    one = gradient();
  }
  const auto before = at::get_num_threads();
  at::set_num_threads(3);
  EXPECT_TRUE(gradient().equal(one));
  at::set_num_threads(before);
}

TEST(LookUp, AddsRowsWhereGradientsAreGathered) {
  at::manual_seed(3);
  const auto table = table_of(), words = some_words();
  const auto expected = torch::autograd::grad({look_up(words, table, Sharing::none).square().sum()}, {table})[0];
  Gathered gathered(table);
  for (int pass = 1; pass <= 2; ++pass) {
    look_up(words, table, Sharing::none).square().sum().backward();
    EXPECT_LT(largest(gathered.memory - expected * pass), 1e-12);
    EXPECT_EQ(gathered.whole, pass);
  }
}

// Two tables and no product: rows of both come at once, to what is there or to nothing.
TEST(LookUp, RowsOfTwoTablesComeTogether) {
  at::manual_seed(5);
  const auto table = table_of(), words = some_words();
  const auto both = [&] { return look_up(words, table, Sharing::tables).square().sum() + look_up(words, table, Sharing::tables).square().sum(); };
  const auto expected = torch::autograd::grad({look_up(words, table, Sharing::none).square().sum()}, {table})[0];
  EXPECT_LT(largest(torch::autograd::grad({both()}, {table})[0] - expected * 2), 1e-12);
  both().backward();
  EXPECT_FALSE(table.grad().is_sparse()) << "an optimizer gets it";
  EXPECT_LT(largest(table.grad() - expected * 2), 1e-12);
  table.mutable_grad().reset();
  Gathered gathered(table);
  for (int pass = 1; pass <= 2; ++pass) {
    both().backward();
    EXPECT_LT(largest(gathered.memory - expected * 2 * pass), 1e-12);
    EXPECT_EQ(gathered.by_autograd, pass);
    EXPECT_EQ(gathered.whole + gathered.in_part, 0);
  }
}

/// The loss of two look-ups and a product of one table. `between`: in backward, after the product and before rows.
at::Tensor tied_loss(const at::Tensor& table, bool ours, const std::function<void()>& between = [] {}) {
  const auto words = some_words();
  const auto rows = ours ? look_up(words, table, Sharing::product) : at::embedding(table, words), others = ours ? look_up(words.add(0), table, Sharing::product) : at::embedding(table, words);
  const auto mixed = rows.tanh().add(others.square());
  mixed.register_hook([between](const at::Tensor& gradient) {
    between();
    return gradient;
  });
  return (ours ? multiply(mixed, table, {}, Sharing::tables) : at::linear(mixed, table)).square().mean();
}

// What a table gets of all that use it is one gradient, complete once, whoever gathers it.
TEST(LookUp, RowsComeToWhatAProductMadeOfTheSameTable) {
  at::manual_seed(4);
  const auto table = table_of(), other = table.detach().clone().requires_grad_();
  tied_loss(other, false).backward();
  const auto& expected = other.grad();
  const auto bound = 1e-13 * largest(expected);
  // By autograd alone, several passes, and asked for. The product's gradient is not made anew where rows come to it.
  for (int pass = 1; pass <= 3; ++pass) {
    const void* made = nullptr;
    tied_loss(table, true, [&] { made = table.grad().const_data_ptr(); }).backward();
    ASSERT_FALSE(table.grad().is_sparse());
    EXPECT_EQ(table.grad().const_data_ptr(), made);
    EXPECT_LT(largest(table.grad() - expected * pass), 10 * bound);
  }
  const auto asked = torch::autograd::grad({tied_loss(table, true)}, {table});
  EXPECT_FALSE(asked[0].is_sparse());
  EXPECT_LT(largest(asked[0] - expected), bound);
  table.mutable_grad().reset();
  Gathered gathered(table);
  for (int pass = 1; pass <= 2; ++pass) {
    tied_loss(table, true).backward();
    EXPECT_LT(largest(gathered.memory - expected * pass), 10 * bound);
    EXPECT_EQ(gathered.whole, 0);
    EXPECT_EQ(gathered.in_part, pass);
    EXPECT_EQ(gathered.by_autograd, pass) << "the hook says that it is complete";
  }
}

ModelGraph graph_of(const std::vector<int>& tied_tables, int products, int tied_products) {
  GraphBuilder builder("tables");
  const auto words = builder.input("words", InputPart::source, {3});
  int x = builder.embedding("table", words, 20, 8, {});
  const int table = x;
  for (const int tied : tied_tables) x = builder.add("sum" + std::to_string(tied), x, builder.embedding("table" + std::to_string(tied), words, 20, 8, {.tied = table}));
  for (int i = 0; i < products; ++i) builder.linear("product" + std::to_string(i), x, 20, {.bias = false});
  for (int i = 0; i < tied_products; ++i) builder.linear("tied" + std::to_string(i), x, 20, {.bias = false, .tied = table});
  return std::move(builder).finish();
}

std::vector<Sharing> of_kind(const ModelGraph& graph, LayerKind kind, const std::vector<bool>& here = {}) {
  std::vector<Sharing> found;
  const auto all = sharing_of_layers(graph, here);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (graph.layers[i].kind == kind && (here.empty() || here[i])) found.push_back(all[i]);
  return found;
}

TEST(Sharing, IsWithTablesAndOneProductOrWithOthers) {
  using S = std::vector<Sharing>;
  const auto alone = graph_of({}, 1, 0), tied = graph_of({1}, 0, 1), tables = graph_of({1}, 1, 0), twice = graph_of({}, 0, 2);
  EXPECT_EQ(of_kind(alone, LayerKind::embedding), S{Sharing::none});
  EXPECT_EQ(of_kind(alone, LayerKind::linear), S{Sharing::none});
  EXPECT_EQ(of_kind(tied, LayerKind::embedding), (S{Sharing::product, Sharing::product}));
  EXPECT_EQ(of_kind(tied, LayerKind::linear), S{Sharing::tables});
  EXPECT_EQ(of_kind(tables, LayerKind::embedding), (S{Sharing::tables, Sharing::tables}));
  EXPECT_EQ(of_kind(tables, LayerKind::linear), S{Sharing::none});
  EXPECT_EQ(of_kind(twice, LayerKind::embedding), S{Sharing::product});
  EXPECT_EQ(of_kind(twice, LayerKind::linear), (S{Sharing::others, Sharing::others}));
  // A stage that has one of them alone.
  std::vector<bool> here(tied.layers.size());
  here.back() = true;
  EXPECT_EQ(of_kind(tied, LayerKind::linear, here), S{Sharing::none});
  for (const auto* graph : {&alone, &tied, &tables}) EXPECT_EQ(summed_by_autograd(*graph), std::vector<bool>(graph->layers.size()));
  EXPECT_EQ(summed_by_autograd(twice), (std::vector<bool>{false, true, true, true}));
}

}  // namespace
}  // namespace ddl
