#include "ddl/nn/kernels/column_sums.h"

#include <gtest/gtest.h>

#include "ddl/nn/element_type.h"
#include "ddl/nn/one_thread_testing.h"
#include "ddl/nn/operators/bias_gradient.h"

namespace ddl {
namespace {

template <typename T>
at::Tensor summed(const at::Tensor& rows) {
  auto sums = at::full({rows.size(1)}, -1.0, std::is_same_v<T, double> ? at::kDouble : at::kFloat);
  column_sums({rows.size(0), rows.size(1), rows.size(1)}, elements<T>(rows), places<Wide<T>>(sums));
  return sums;
}

double error(const at::Tensor& sums, const at::Tensor& rows) {
  const auto right = rows.to(at::kDouble).sum(0);
  return ((sums.to(at::kDouble) - right) / right).abs().max().item<double>();
}

// However many rows there are, the error is that of 128: in fp32 one after the other, so many positive numbers would be off by 1e-4.
TEST(ColumnSums, AreOffByARoundingHoweverManyRows) {
  at::manual_seed(2);
  for (const std::int64_t rows : {1, 127, 128, 129, 20000})
    for (const std::int64_t columns : {1, 3, 64, 65, 600}) {
      const auto values = at::rand({rows, columns}, at::kDouble);
      EXPECT_LT(error(summed<double>(values), values), 1e-14) << rows << " x " << columns;
      const auto single = values.to(at::kFloat), narrow = values.to(at::kBFloat16);
      EXPECT_LT(error(summed<float>(single), single), 3e-6) << rows << " x " << columns;
      EXPECT_LT(error(summed<Bf16>(narrow), narrow), 3e-6) << rows << " x " << columns;
    }
}

TEST(BiasGradient, IsTheSumOverPlacesInTheBiasesType) {
  at::manual_seed(3);
  const auto rows = at::rand({300, 70}), narrow = rows.to(at::kBFloat16);
  const auto check = [&] {
    for (const auto& of : {rows, narrow, at::rand({70, 300}).t()}) {
      const auto sums = bias_gradient(of, at::kFloat);
      ASSERT_EQ(sums.scalar_type(), at::kFloat);
      EXPECT_LT(error(sums, of), 3e-6);
    }
    EXPECT_LT(error(bias_gradient(rows.to(at::kDouble), at::kDouble), rows), 1e-14);
  };
  check();
  const OneThread one;
  check();
}

}  // namespace
}  // namespace ddl
