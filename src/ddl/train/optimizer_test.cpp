#include "ddl/train/optimizer.h"

#include <cmath>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include "ddl/core/error.h"

namespace ddl {
namespace {

constexpr int kSteps = 20;
constexpr double kRate = 0.05;
constexpr std::int64_t kElements = 37;  // no multiple of any vector's width

at::Tensor gradient_of(int step, at::ScalarType type) { return at::linspace(0.1, 1 + step, kElements, at::kDouble).sin().to(type); }
at::Tensor start(at::ScalarType type) { return at::linspace(-1, 1, kElements, at::kDouble).to(type); }

/// Runs ours beside one of torch::optim on identical gradients; ours are handed in `scale` times too large.
template <typename Reference, typename Options>
void expect_equal_to_torch(const std::string& spec, const OptimizerDefaults& defaults, const Options& options, double scale = 1) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    auto ours = start(type).requires_grad_(true);
    auto theirs = start(type).requires_grad_(true);
    const auto optimizer = make_optimizer(parse_spec(spec), {ours}, defaults);
    Reference reference({theirs}, options);
    for (int step = 0; step < kSteps; ++step) {
      theirs.mutable_grad() = gradient_of(step, type);
      reference.step();
      optimizer->update(0, gradient_of(step, type).mul(scale), kRate, 1 / scale);
      EXPECT_LT((ours - theirs).abs().max().template item<double>(), type == at::kFloat ? 2e-5 : 1e-13) << spec << " step " << step;
    }
  }
}

TEST(Sgd, EqualsTorchOptim) {
  for (const auto& [momentum, decay] : {std::pair{0.0, 0.0}, {0.9, 0.0}, {0.9, 0.01}, {0.0, 0.1}})
    expect_equal_to_torch<torch::optim::SGD>("sgd", {momentum, decay}, torch::optim::SGDOptions(kRate).momentum(momentum).weight_decay(decay));
}

TEST(Sgd, WithNesterovsMomentumEqualsTorchOptim) {
  expect_equal_to_torch<torch::optim::SGD>("sgd[nesterov=on]", {0.9, 0.01},
                                           torch::optim::SGDOptions(kRate).momentum(0.9).weight_decay(0.01).nesterov(true));
}

TEST(Sgd, ItsOwnMomentumWinsOverTheDefault) {
  expect_equal_to_torch<torch::optim::SGD>("sgd[momentum=0.5]", {0.9, 0}, torch::optim::SGDOptions(kRate).momentum(0.5));
}

TEST(Sgd, RefusesNesterovWithoutMomentum) { EXPECT_THROW(make_optimizer(parse_spec("sgd[nesterov]"), {}, {}), Error); }

TEST(Adam, EqualsTorchOptim) {
  expect_equal_to_torch<torch::optim::Adam>("adam", {}, torch::optim::AdamOptions(kRate));
  expect_equal_to_torch<torch::optim::Adam>("adam[beta1=0.8,beta2=0.98,epsilon=1e-6]", {0.9, 0.01},
                                            torch::optim::AdamOptions(kRate).betas({0.8, 0.98}).eps(1e-6).weight_decay(0.01));
}

TEST(AdamW, EqualsTorchOptim) {
  expect_equal_to_torch<torch::optim::AdamW>("adamw", {0.9, 0.1}, torch::optim::AdamWOptions(kRate).weight_decay(0.1));
}

TEST(Optimizer, AScaleOfTheGradientIsUndone) {
  constexpr double kScale = 1024;
  expect_equal_to_torch<torch::optim::SGD>("sgd", {0.9, 0.01}, torch::optim::SGDOptions(kRate).momentum(0.9).weight_decay(0.01), kScale);
  expect_equal_to_torch<torch::optim::Adam>("adam", {0, 0.01}, torch::optim::AdamOptions(kRate).weight_decay(0.01), kScale);
}

double norm(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

std::vector<double> values_of(const at::Tensor& tensor) {
  const auto flat = tensor.detach().to(at::kDouble).flatten();
  return {flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel()};
}

/// One layer of You, Gitman & Ginsburg 2017, algorithm 1, an element at a time.
struct ScalarLars {
  double momentum, decay, trust;
  std::vector<double> v = {};
  void step(std::vector<double>& w, const std::vector<double>& g) {
    v.resize(w.size());
    const double local = trust * norm(w) / (norm(g) + decay * norm(w));
    for (std::size_t i = 0; i < w.size(); ++i) {
      v[i] = momentum * v[i] + kRate * local * (g[i] + decay * w[i]);
      w[i] = w[i] - v[i];
    }
  }
};

/// One layer of You et al. 2020, algorithm 2, an element at a time.
struct ScalarLamb {
  double beta1, beta2, epsilon, decay;
  std::vector<double> m = {}, v = {};
  int t = 0;
  void step(std::vector<double>& x, const std::vector<double>& g) {
    m.resize(x.size());
    v.resize(x.size());
    ++t;
    std::vector<double> u(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      m[i] = beta1 * m[i] + (1 - beta1) * g[i];
      v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
      const double corrected_m = m[i] / (1 - std::pow(beta1, t)), corrected_v = v[i] / (1 - std::pow(beta2, t));
      u[i] = corrected_m / (std::sqrt(corrected_v) + epsilon) + decay * x[i];
    }
    const double ratio = norm(x) / norm(u);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] -= kRate * ratio * u[i];
  }
};

template <typename Scalar>
void expect_equal_to_formula(const std::string& spec, const OptimizerDefaults& defaults, const Scalar& formula) {
  for (const auto type : {at::kFloat, at::kDouble})
    for (const double scale : {1.0, 512.0}) {
      auto reference = formula;
      auto ours = start(type).reshape({1, kElements}).clone();
      auto theirs = values_of(ours);
      const auto optimizer = make_optimizer(parse_spec(spec), {ours}, defaults);
      for (int step = 0; step < kSteps; ++step) {
        const auto gradient = gradient_of(step, type).reshape({1, kElements});
        reference.step(theirs, values_of(gradient));
        optimizer->update(0, gradient.mul(scale), kRate, 1 / scale);
        const auto now = values_of(ours);
        for (std::size_t i = 0; i < now.size(); ++i) ASSERT_NEAR(now[i], theirs[i], type == at::kFloat ? 2e-5 : 1e-13) << spec << " step " << step;
      }
    }
}

TEST(Lars, IsThePapersFormula) {
  expect_equal_to_formula("lars[trust=0.02]", {0.9, 0.01}, ScalarLars{0.9, 0.01, 0.02});
  expect_equal_to_formula("lars[trust=0.5,momentum=0]", {0.9, 0}, ScalarLars{0, 0, 0.5});
}

TEST(Lars, LeavesVectorsToPlainSgdUnlessTold) {
  for (const auto* vectors : {"off", "on"}) {
    auto ours = start(at::kDouble);
    auto theirs = values_of(ours);
    const auto gradient = gradient_of(0, at::kDouble);
    const auto optimizer = make_optimizer(parse_spec(fmt::format("lars[trust=0.02,vectors={}]", vectors)), {ours}, {0, 0.01});
    optimizer->update(0, gradient, kRate);
    if (std::string(vectors) == "on") {
      ScalarLars{0, 0.01, 0.02}.step(theirs, values_of(gradient));
    } else {
      const auto g = values_of(gradient);
      for (std::size_t i = 0; i < g.size(); ++i) theirs[i] -= kRate * g[i];
    }
    const auto now = values_of(ours);
    for (std::size_t i = 0; i < now.size(); ++i) EXPECT_NEAR(now[i], theirs[i], 1e-15) << vectors;
  }
}

TEST(Lamb, IsThePapersFormula) {
  expect_equal_to_formula("lamb", {0, 0.01}, ScalarLamb{0.9, 0.999, 1e-6, 0.01});
  expect_equal_to_formula("lamb[beta1=0.8,beta2=0.99,epsilon=1e-4]", {0, 0}, ScalarLamb{0.8, 0.99, 1e-4, 0});
}

// As on a GPU: the same arithmetic by ATen's operators, of several parameters at once, also where one comes late.
TEST(OptimizerConformance, AtensOperatorsDoWhatTheKernelsDo) {
  for (const auto* spec : {"sgd[momentum=0]", "sgd", "sgd[nesterov=on]", "adam", "adam[beta1=0.8,beta2=0.98,epsilon=1e-6]", "adamw", "lars[trust=0.02]",
                           "lars[trust=0.02,vectors=on]", "lamb"})
    for (const auto type : {at::kFloat, at::kDouble})
      for (const double scale : {1.0, 1.0 / 512}) {
        const auto make = [&] { return std::vector{start(type).reshape({1, kElements}).clone(), start(type).mul(3), at::zeros({1, kElements}, type)}; };
        auto ours = make(), atens = make();
        for (auto& parameter : atens) parameter.requires_grad_(true);
        const auto kernels = make_optimizer(parse_spec(spec), ours, {0.9, 0.01}), aten = make_optimizer(parse_spec(spec), atens, {0.9, 0.01});
        aten->use_aten();
        for (int step = 0; step < kSteps; ++step) {
          const auto gradient = gradient_of(step, type).div(scale);
          std::vector<std::size_t> numbers{0, 1, 2};
          std::vector<at::Tensor> gradients{gradient.reshape({1, kElements}), gradient.neg(), gradient.reshape({1, kElements}).mul(0.3)};
          if (step == 0) {
            numbers.pop_back();
            gradients.pop_back();
          }
          if (step == 2) {  // a vector alone
            numbers = {1};
            gradients = {gradient.neg()};
          }
          kernels->update(numbers, gradients, kRate, scale);
          aten->update(numbers, gradients, kRate, scale);
          for (std::size_t i = 0; i < ours.size(); ++i)
            ASSERT_LT((ours[i] - atens[i]).abs().max().item<double>(), type == at::kFloat ? 2e-5 : 1e-12) << spec << " parameter " << i << " step " << step;
        }
        EXPECT_GT((ours[0] - start(type)).abs().max().item<double>(), 1e-3) << spec << " does nothing";
      }
}

// A layer of zeros has no norm that a rate could follow: it must move all the same.
TEST(OptimizerConformance, MovesAParameterThatStartsAtZero) {
  for (const auto& name : builtin_optimizers().names()) {
    auto parameter = at::zeros({3, 4});
    make_optimizer({name, {}}, {parameter}, {0.9, 0.01})->update(0, at::ones({3, 4}), 0.1);
    EXPECT_LT(parameter.max().item<double>(), 0) << name;
  }
}

TEST(OptimizerConformance, StateIsWhatItSays) {
  for (const auto& [name, tensors] : {std::pair{"sgd", 1}, {"adam", 2}, {"adamw", 2}, {"lars", 1}, {"lamb", 2}}) {
    const auto optimizer = make_optimizer({name, {}}, {at::zeros({3, 5}), at::zeros({7})}, {0.9, 0});
    EXPECT_EQ(optimizer->state_tensors(), tensors) << name;
    EXPECT_EQ(optimizer->state_bytes(), tensors * 22 * 4) << name;
  }
  EXPECT_EQ(make_optimizer({"sgd", {}}, {at::zeros({3, 5})}, {0, 0})->state_bytes(), 0);
}

TEST(OptimizerConformance, RefusesAGradientInAnotherOrderOrType) {
  for (const auto& name : builtin_optimizers().names()) {
    const auto optimizer = make_optimizer({name, {}}, {at::zeros({2, 3})}, {});
    for (const auto& gradient : {at::zeros({3, 2}), at::zeros({3, 2}).t(), at::zeros({2, 3}, at::kDouble)})
      EXPECT_THROW(optimizer->update(0, gradient, 0.1), Error) << name;
  }
}

TEST(OptimizerConformance, RefusesOptionsThatDoNotFit) {
  for (const auto* bad : {"sgd[beta1=0.9]", "sgd[momentum=2]", "sgd[nesterov=perhaps]", "adam[momentum=0.9]", "adam[beta1=1]", "adamw[epsilon=x]",
                          "lars[trust=-1]", "lamb[beta2=nan]", "adan"})
    EXPECT_THROW(make_optimizer(parse_spec(bad), {}, {0.9, 0}), Error) << bad;
}

// On several threads, too, and where parts do not divide evenly.
TEST(Optimizer, ThreadsGiveTheSameBits) {
  constexpr std::int64_t kMany = (std::int64_t{1} << 17) + 13;
  for (const char* text : {"sgd", "sgd[nesterov=on]", "adam", "adamw", "lars", "lamb"}) {
    const auto stepped = [&](int threads) {
      at::set_num_threads(threads);
      at::manual_seed(3);
      auto parameter = at::randn({kMany});
      const auto rule = make_optimizer(parse_spec(text), {parameter}, {0.9, 1e-3});
      for (int step = 0; step < 3; ++step) rule->update(0, at::randn({kMany}), 0.1, 0.5);
      at::set_num_threads(1);
      return parameter;
    };
    EXPECT_TRUE(at::equal(stepped(1), stepped(3))) << text;
  }
}

TEST(SumOfSquares, CountsEveryElementAndSeesWhatIsNotFinite) {
  for (const std::int64_t n : {0, 1, 15, 16, 17, 100}) {
    auto x = at::arange(n, at::kFloat);
    EXPECT_EQ(sum_of_squares(x), static_cast<double>((n - 1) * n * (2 * n - 1) / 6)) << n;
    for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()})
      for (std::int64_t i = 0; i < n; ++i) {
        auto y = x.clone();
        y[i] = bad;
        EXPECT_FALSE(std::isfinite(sum_of_squares(y)));
      }
  }
  EXPECT_TRUE(std::isfinite(sum_of_squares(at::full({1000}, std::numeric_limits<float>::max()))));
}

}  // namespace
}  // namespace ddl
