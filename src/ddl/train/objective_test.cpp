#include "ddl/train/objective.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/nn/builtin.h"

namespace ddl {
namespace {

/// -sum_k q_k log softmax(logits)_k with q smoothed, an element at a time.
double by_hand(const std::vector<double>& logits, std::size_t right, double smoothing) {
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit);
  double loss = 0;
  for (std::size_t k = 0; k < logits.size(); ++k) {
    const double expected = (k == right ? 1 - smoothing : 0) + smoothing / static_cast<double>(logits.size());
    loss -= expected * (logits[k] - std::log(sum));
  }
  return loss;
}

const std::vector<std::vector<double>> kLogits{{0.1, 2, -1, 0.5}, {3, 0, 0.2, -2}, {-1, 1, 1.5, 0.3}, {0, 0.1, 0.2, 0.4}};

at::Tensor logits() {
  auto tensor = at::empty({4, 4}, at::kDouble);
  for (std::int64_t row = 0; row < 4; ++row)
    for (std::int64_t k = 0; k < 4; ++k) tensor[row][k] = kLogits[static_cast<std::size_t>(row)][static_cast<std::size_t>(k)];
  return tensor;
}

TEST(Objective, SumsSmoothedCrossEntropyOverSamples) {
  const std::vector<std::int64_t> labels{1, 0, 3, 2};
  for (const double smoothing : {0.0, 0.1, 1.0}) {
    double expected = 0;
    for (std::size_t i = 0; i < 4; ++i) expected += by_hand(kLogits[i], static_cast<std::size_t>(labels[i]), smoothing);
    EXPECT_NEAR(loss_sum({logits(), {}}, at::tensor(labels, at::kLong), smoothing).item<double>(), expected, 1e-12) << smoothing;
  }
}

TEST(Objective, CountsAnAuxiliaryHead) {
  const auto labels = at::tensor(std::vector<std::int64_t>{1, 0, 3, 2}, at::kLong);
  const double main = loss_sum({logits(), {}}, labels, 0.1).item<double>(), other = loss_sum({logits().mul(2), {}}, labels, 0.1).item<double>();
  EXPECT_NEAR(loss_sum({logits(), logits().mul(2)}, labels, 0.1).item<double>(), main + 0.4 * other, 1e-12);
}

// Two sentences of two places; the second has one word, then padding (0), which counts nothing.
TEST(Objective, SumsOverWordsAndLeavesPaddingOut) {
  const auto expected = at::tensor(std::vector<std::int64_t>{1, 3, 2, SampleShape::kPadding}, at::kLong).reshape({2, 2});
  for (const double smoothing : {0.0, 0.1}) {
    const double sum = by_hand(kLogits[0], 1, smoothing) + by_hand(kLogits[1], 3, smoothing) + by_hand(kLogits[2], 2, smoothing);
    EXPECT_NEAR(loss_sum({logits().reshape({2, 2, 4}), {}}, expected, smoothing).item<double>(), sum, 1e-12) << smoothing;
  }
  ScoreSum sum;
  sum.add(logits().reshape({2, 2, 4}), expected);
  const auto scores = sum.total(*make_device("cpu"));
  EXPECT_EQ(scores.counted, 3);
  EXPECT_EQ(scores.top1, 2);  // 1 and 2 are right; 3 is not; what padding's place says does not count
}

TEST(Objective, ComputesTheLossOfHalfPrecisionLogitsInFp32) {
  const auto labels = at::tensor(std::vector<std::int64_t>{1, 0, 3, 2}, at::kLong);
  const auto half = logits().to(at::kBFloat16);
  const auto loss = loss_sum({half, {}}, labels, 0);
  EXPECT_EQ(loss.scalar_type(), at::kFloat);
  EXPECT_EQ(loss.item<float>(), loss_sum({half.to(at::kFloat), {}}, labels, 0).item<float>());
}

// In fp32 no farther from the fp64 result than ATen's own by a factor of 2, and where that is nearly exact not more than 1e-6 of the largest element.
TEST(Objective, OurCrossEntropyIsAtens) {
  for (const std::int64_t classes : {2, 15, 16, 1000})
    for (const double smoothing : {0.0, 0.1})
      for (const double size : {1.0, 30.0}) {
        const auto exact = at::randn({6, classes}, at::kDouble).mul(size).to(at::kFloat).to(at::kDouble).requires_grad_();
        const auto labels = at::randint(1, classes, {2, 3}, at::kLong);
        labels[1][1] = SampleShape::kPadding;
        std::vector<at::Tensor> losses, gradients;
        for (const auto kernels : {std::optional<Kernels>{}, std::optional(Kernels::torch), std::optional(Kernels::fast)}) {
          const auto x = exact.detach().to(kernels ? at::kFloat : at::kDouble).requires_grad_();
          const auto loss = loss_sum({x.view({2, 3, classes}), {}}, labels, smoothing, kernels.value_or(Kernels::torch));
          loss.mul(0.25).backward();
          losses.push_back(loss.detach());
          gradients.push_back(x.grad());
        }
        const auto apart = [](const at::Tensor& a, const at::Tensor& b) { return a.sub(b).abs().max().item<double>(); };
        const auto label = fmt::format("{} classes, smoothing {}, size {}", classes, smoothing, size);
        EXPECT_LE(apart(losses[2], losses[0]), std::max(2 * apart(losses[1], losses[0]), 1e-6 * losses[0].item<double>())) << label;
        EXPECT_LE(apart(gradients[2], gradients[0]), std::max(2 * apart(gradients[1], gradients[0]), 2.5e-7)) << label;
        EXPECT_TRUE(gradients[2][4].eq(0).all().item<bool>()) << label;
      }
}

TEST(Objective, OurCrossEntropyNamesAWrongLabelAndPassesNotANumberOn) {
  const auto x = at::zeros({2, 20}).requires_grad_();
  std::string said;
  try {
    loss_sum({x, {}}, at::tensor(std::vector<std::int64_t>{3, 20}, at::kLong), 0, Kernels::fast);
  } catch (const Error& error) {
    said = error.what();
  }
  EXPECT_EQ(said, "[cross entropy] a label names a class; got 20 of row 1, expected 0 to 19");
  const auto odd = at::zeros({2, 20});
  odd[1][18] = std::numeric_limits<float>::quiet_NaN();
  odd.requires_grad_();
  const auto loss = loss_sum({odd, {}}, at::tensor(std::vector<std::int64_t>{3, 4}, at::kLong), 0, Kernels::fast);
  loss.backward();
  EXPECT_TRUE(std::isnan(loss.item<float>()));
  EXPECT_TRUE(odd.grad()[1].isnan().all().item<bool>());
  EXPECT_FALSE(odd.grad()[0].isnan().any().item<bool>());
}

TEST(Objective, CountsTheFiveBestAndTheBest) {
  // Row i has its label at place i of its ranking: one is best, five are among the five best.
  auto ranked = at::arange(8, 0, -1, at::kFloat).repeat({8, 1});
  ScoreSum sum;
  sum.add(ranked, at::arange(8, at::kLong));
  sum.add(ranked, at::arange(8, at::kLong));
  const auto scores = sum.total(*make_device("cpu"));
  EXPECT_EQ(scores.counted, 16);
  EXPECT_EQ(scores.top1, 2);
  EXPECT_EQ(scores.top5, 10);
}

Batch batch_of(const SampleShape& shape, std::int64_t samples) {
  Batch batch;
  batch.samples = samples;
  batch.step = 9;
  batch.images.resize(static_cast<std::size_t>(samples * shape.pixels()));
  std::iota(batch.images.begin(), batch.images.end(), 0.0F);
  for (std::int64_t i = 0; i < samples; ++i) {
    batch.indices.push_back(100 + i);
    batch.labels.push_back(i);
    for (int place = 0; place < shape.source_length; ++place) batch.source.push_back(10 * i + place);
    for (int place = 0; place < shape.target_length; ++place) batch.target.push_back(50 + 10 * i + place);
  }
  return batch;
}

// By our own way, of three planes, and by ATen's, of others and in fp64.
TEST(Example, ImagesLieAsTheNetworkTakesThem) {
  for (const auto& [channels, side] : {std::pair{3, 32}, {3, 33}, {1, 28}, {4, 12}})
    for (const auto type : {at::kFloat, at::kDouble}) {
      const SampleShape shape{channels, side, side, 10};
      Network network{builtin_models().at("smallcnn").make({"smallcnn", {}}, shape), {type}};
      ASSERT_EQ(network.memory_format(), at::MemoryFormat::ChannelsLast);
      const auto batch = batch_of(shape, 5);
      const auto images = example(batch, shape, 1, 4, network, *make_device("cpu")).input.images;
      EXPECT_TRUE(images.is_contiguous(at::MemoryFormat::ChannelsLast)) << channels;
      EXPECT_EQ(images.scalar_type(), type);
      const auto planes = at::from_blob(const_cast<float*>(batch.images.data()) + shape.pixels(), {3, channels, side, side}, at::kFloat);
      EXPECT_TRUE(images.eq(planes.to(type)).all().item<bool>()) << channels << " of " << side;
    }
}

Network lenet_network() { return {builtin_models().at("lenet").make({"lenet", {}}, {1, 28, 28, 10}), {at::kDouble}}; }

TEST(Example, IsASliceOfTheBatch) {
  const SampleShape shape{1, 28, 28, 10};
  auto network = lenet_network();
  const auto batch = batch_of(shape, 5);
  const auto made = example(batch, shape, 2, 4, network, *make_device("cpu"));
  EXPECT_EQ(made.input.images.sizes(), (at::IntArrayRef{2, 1, 28, 28}));
  EXPECT_EQ(made.input.images.scalar_type(), at::kDouble);
  EXPECT_EQ(made.input.images[0][0][0][0].item<double>(), 2 * 784);
  EXPECT_EQ(made.input.samples, (std::vector<std::int64_t>{102, 103}));
  EXPECT_EQ(made.input.step, 9);
  EXPECT_TRUE(at::equal(made.expected, at::arange(2, 4, at::kLong)));
  EXPECT_FALSE(made.input.target.defined());
}

TEST(Example, GivesTheWordsBeforeAndExpectsTheNext) {
  const SampleShape shape{0, 0, 0, 100, Objective::translation, 3, 4};
  auto network = lenet_network();
  const auto batch = batch_of(shape, 2);
  const auto made = example(batch, shape, 1, 2, network, *make_device("cpu"));
  EXPECT_FALSE(made.input.images.defined());
  EXPECT_TRUE(at::equal(made.input.source, at::arange(10, 13, at::kLong).unsqueeze(0)));
  EXPECT_TRUE(at::equal(made.input.target, at::arange(60, 63, at::kLong).unsqueeze(0)));
  EXPECT_TRUE(at::equal(made.expected, at::arange(61, 64, at::kLong).unsqueeze(0)));
}

}  // namespace
}  // namespace ddl
