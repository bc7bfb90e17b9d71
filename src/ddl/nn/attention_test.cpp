#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "ddl/nn/one_thread_testing.h"
#include "ddl/nn/operators/attention.h"
#include "ddl/nn/tensors_testing.h"

// Attention in blocks against ATen's in fp64.
namespace ddl {
namespace {

struct Case {
  std::int64_t samples, places, seen, heads, width;
  bool itself, causal, hides;
};

const std::vector<Case> kCases{{2, 5, 5, 2, 3, true, false, false}, {3, 64, 64, 4, 16, true, true, false}, {2, 200, 200, 3, 8, true, true, false}, {1, 130, 130, 2, 20, true, false, true},
                               {2, 70, 33, 2, 8, false, false, true}, {1, 1, 9, 1, 4, false, false, false}, {2, 9, 300, 16, 8, false, false, false}, {1, 65, 2100, 3, 4, false, false, true}};

/// Leaves are projections; what is not seen is padding at the end of each sentence.
struct Attending {
  at::Tensor asking, known, out;
};

at::Tensor visible_of(const Case& c) {
  if (!c.hides) return {};
  auto visible = at::ones({c.samples, 1, 1, c.seen}, at::kBool);
  for (std::int64_t i = 0; i < c.samples; ++i) visible[i].narrow(2, c.seen - 1 - i, 1 + i).fill_(false);
  return visible;
}

at::Tensor by_aten(const Case& c, const at::Tensor& asking, const at::Tensor& known) {
  const auto features = c.heads * c.width;
  const auto heads = [&](const at::Tensor& from, std::int64_t part) { return from.narrow(2, part * features, features).unflatten(2, {c.heads, c.width}).transpose(1, 2); };
  const auto visible = visible_of(c);
  return at::scaled_dot_product_attention(heads(asking, 0), heads(known, c.itself ? 1 : 0), heads(known, c.itself ? 2 : 1), visible.defined() ? std::optional(visible) : std::nullopt, 0, c.causal).transpose(1, 2).flatten(2);
}

at::Tensor by_us(const Case& c, const at::Tensor& asking, const at::Tensor& known) { return attend_by_blocks({asking, known, c.heads, c.heads * c.width, c.causal, visible_of(c)}); }

template <typename F>
Attending run(const Case& c, const Attending& from, at::ScalarType type, F&& attend) {
  const auto copy = [&](const at::Tensor& each) { return each.detach().to(type).clone().requires_grad_(); };
  Attending made;
  made.asking = copy(from.asking);
  made.known = c.itself ? made.asking : copy(from.known);
  made.out = attend(c, made.asking, made.known);
  made.out.mul(from.out.to(type)).sum().backward();
  return made;
}

TEST(AttendByBlocks, IsAttention) {
  const OneThread one;
  at::manual_seed(9);
  for (const auto& c : kCases) {
    const auto features = c.heads * c.width;
    const Attending given{at::randn({c.samples, c.places, features * (c.itself ? 3 : 1)}, at::kDouble), at::randn({c.samples, c.seen, features * 2}, at::kDouble), at::randn({c.samples, c.places, features}, at::kDouble)};
    ASSERT_TRUE(attends_by_blocks({given.asking.to(at::kFloat), given.known.to(at::kFloat), c.heads, features, c.causal, visible_of(c)}, {}));
    const auto exact = run(c, given, at::kDouble, by_aten), ours = run(c, given, at::kFloat, by_us), atens = run(c, given, at::kFloat, by_aten);
    const auto compare = [&](const at::Tensor& expected, const at::Tensor& a, const at::Tensor& b, const char* of) {
      ASSERT_EQ(a.sizes(), expected.sizes());
      EXPECT_LT(largest(a - expected), std::max(2e-6 * (1 + largest(expected)), 4 * largest(b - expected))) << of << " of " << c.places << " places that see " << c.seen;
    };
    compare(exact.out, ours.out, atens.out, "output");
    compare(exact.asking.grad(), ours.asking.grad(), atens.asking.grad(), "gradient of queries");
    compare(exact.known.grad(), ours.known.grad(), atens.known.grad(), "gradient of keys and values");
  }
}

// Scores far beyond what exponentials of fp32 hold.
TEST(AttendByBlocks, TakesLargeScores) {
  const OneThread one;
  const Case c{1, 6, 6, 1, 4, true, true, false};
  const Attending given{at::randn({1, 6, 12}, at::kDouble).mul(40), {}, at::randn({1, 6, 4}, at::kDouble)};
  const auto exact = run(c, given, at::kDouble, by_aten), ours = run(c, given, at::kFloat, by_us);
  EXPECT_LT(largest(ours.out - exact.out), 1e-3 * largest(exact.out));
  EXPECT_FALSE(ours.asking.grad().isnan().any().item<bool>());
}

TEST(AttendByBlocks, OfAPlaceThatSeesNothingIsZero) {
  const OneThread one;
  const auto asking = at::randn({1, 3, 4}).requires_grad_(), known = at::randn({1, 5, 8}).requires_grad_();
  const auto out = attend_by_blocks({asking, known, 2, 4, false, at::zeros({1, 1, 1, 5}, at::kBool)});
  out.sum().backward();
  EXPECT_EQ(largest(out), 0);
  EXPECT_EQ(largest(asking.grad()), 0);
  EXPECT_EQ(largest(known.grad()), 0);
}

TEST(AttendByBlocks, IsForFp32OrNarrower) {
  const auto asking = at::randn({1, 3, 4}), known = at::randn({1, 5, 8});
  const auto takes = [&](at::ScalarType type, Kernels kernels) {
    NetworkOptions options;
    options.kernels = kernels;
    return attends_by_blocks({asking.to(type), known.to(type), 2, 4, false, {}}, options);
  };
  EXPECT_TRUE(takes(at::kFloat, Kernels::fast));
  EXPECT_TRUE(takes(at::kBFloat16, Kernels::fast));
  EXPECT_FALSE(takes(at::kDouble, Kernels::fast));
  EXPECT_FALSE(takes(at::kHalf, Kernels::fast));
  EXPECT_FALSE(takes(at::kFloat, Kernels::torch));
}

TEST(AttendByBlocks, SaysNoTwice) {
  const OneThread one;
  const auto all = at::randn({1, 3, 12}).requires_grad_();
  const auto loss = attend_by_blocks({all, all, 2, 4, true, {}}).sum();
  loss.backward();
  EXPECT_THROW(loss.backward(), c10::Error);
}

}  // namespace
}  // namespace ddl
