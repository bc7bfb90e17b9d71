#include "ddl/train/split_backward.h"

#include <map>
#include <mutex>

#include <ATen/record_function.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include "ddl/nn/multiplier_testing.h"
#include "ddl/nn/narrow_networks_testing.h"
#include "ddl/nn/network_testing.h"
#include "ddl/strategy/pipeline/schedules.h"
#include "ddl/strategy/pipeline_tasks/pipeline_plan.h"
#include "ddl/train/objective.h"
#include "ddl/train/trial_testing.h"

// Backward in two parts gives what one part gives, computes nothing twice, and trains the pipelines that are made of it exactly.
namespace ddl {
namespace {

using testing::expect_equal;
using testing::train;
using testing::train_rank;

/// The end of a network from a layer on, which only that layer's value leads to, with that value as a leaf.
struct Tail {
  Network network;
  Samples samples;
  std::size_t cut;
  at::Tensor leaf = {}, loss = {};

  /// `share`: of the layers that are before the cut.
  Tail(const std::string& name, double share, at::ScalarType type)
      : Tail(small_trial(name), share, type) {}
  Tail(const ddl::Trial& trial, double share, at::ScalarType type)
      : network(builtin_models().at(parse_spec(trial.spec).name).make(parse_spec(trial.spec), trial.shape), {type}), samples(made_up_samples(4, trial.shape, type)) {
    const auto& layers = network.graph().layers;
    for (cut = static_cast<std::size_t>(share * static_cast<double>(layers.size())); cut + 1 < layers.size(); ++cut)
      if (alone(cut)) break;
  }
  bool alone(std::size_t at) const {
    for (std::size_t layer = 0; layer + 1 < at; ++layer)
      if (network.last_use(layer) >= at && network.graph().layers[layer].kind != LayerKind::input) return false;
    return !network.graph().layers[at].in_place;
  }

  void forward() {
    const auto size = network.graph().layers.size();
    std::vector<at::Tensor> values(size);
    for (std::size_t layer = 0; layer < cut; ++layer) values[layer] = network.forward_layer(layer, values, samples.input, true);
    leaf = values[cut - 1].detach().requires_grad_(true);
    for (std::size_t layer = 0; layer < cut; ++layer)
      if (network.graph().layers[layer].kind != LayerKind::input) values[layer].reset();
    values[cut - 1] = leaf;
    network.forward_layers(cut, size, values, samples.input, true);
    loss = loss_sum({values.back(), {}}, samples.labels, 0);
  }
  torch::autograd::edge_list roots() const { return {torch::autograd::impl::gradient_edge(loss)}; }
  torch::autograd::variable_list one() const { return {at::ones({}, loss.options().requires_grad(false))}; }
  std::vector<at::Tensor> take() {
    std::vector<at::Tensor> gradients{std::exchange(leaf.mutable_grad(), at::Tensor())};
    for (auto& parameter : network.parameters()) gradients.push_back(std::exchange(parameter.mutable_grad(), at::Tensor()));
    return gradients;
  }
  std::vector<at::Tensor> plain() {
    forward();
    torch::autograd::Engine::get_default_engine().execute(roots(), one(), false, false, true);
    return take();
  }
  LateGradients first() {
    forward();
    return backward_input(roots(), one(), {leaf});
  }
};

/// Products that run while it lives, with the gradient of the input and that of the weights of a convolution counted each.
class Products {
 public:
  Products() {
    counts.clear();
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback([](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
                                           const std::string name = function.name();
                                           if (name == "aten::convolution_backward") {
                                             const auto mask = function.inputs().back().toBoolList();
                                             for (const int part : {0, 1}) counts[part == 0 ? "convolution of inputs" : "convolution of weights"] += mask.get(static_cast<std::size_t>(part));
                                           }
                                           if (name == "aten::mm" || name == "aten::bmm" || name == "aten::addmm" || name == "aten::native_batch_norm_backward" ||
                                               name == "aten::native_layer_norm_backward" || name.find("attention") != std::string::npos)
                                             ++counts[name];
                                           return nullptr;
                                         }).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
  }
  ~Products() { at::removeCallback(handle_); }
  std::map<std::string, int> taken() { return std::exchange(counts, {}); }

 private:
  static thread_local std::map<std::string, int> counts;
  at::CallbackHandle handle_;
};
thread_local std::map<std::string, int> Products::counts;

std::map<std::string, int> sum(std::map<std::string, int> a, const std::map<std::string, int>& b) {
  for (const auto& [name, count] : b) a[name] += count;
  return a;
}

const std::vector<std::string> kNetworks{"lenet", "mlp", "resnet18", "mobilenetv2", "transformer", "gpt"};

TEST(SplitBackward, GivesTheSameBitsAsOnePass) {
  for (const auto& name : kNetworks)
    for (const double share : {0.3, 0.6}) {
      Tail tail(name, share, at::kDouble);
      const auto expected = tail.plain();
      auto late = tail.first();
      ASSERT_TRUE(tail.leaf.grad().defined()) << name;
      EXPECT_TRUE(at::equal(tail.leaf.grad(), expected[0])) << name;
      for (const auto& parameter : tail.network.parameters()) EXPECT_FALSE(parameter.grad().defined()) << name;
      backward_weight(std::move(late));
      const auto got = tail.take();
      for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(got[i].defined(), expected[i].defined()) << name << " " << i;
        if (got[i].defined()) {
          EXPECT_TRUE(at::equal(got[i], expected[i])) << name << " " << i << " by " << (got[i] - expected[i]).abs().max().item<double>();
        }
      }
    }
}

TEST(SplitBackward, ComputesNoProductTwice) {
  // Of the products that are counted oneDNN's are none: which machine gives it which is its own affair.
  const Multiplying by_mkl(Multipliers{});
  for (const auto& name : kNetworks) {
    Tail tail(name, 0.4, at::kFloat);
    tail.forward();
    std::map<std::string, int> whole, first, second;
    {
      Products products;
      torch::autograd::Engine::get_default_engine().execute(tail.roots(), tail.one(), false, false, true);
      whole = products.taken();
    }
    tail.take();
    tail.forward();
    {
      Products products;
      auto late = backward_input(tail.roots(), tail.one(), {tail.leaf});
      first = products.taken();
      backward_weight(std::move(late));
      second = products.taken();
    }
    EXPECT_FALSE(whole.empty()) << name;
    auto both = sum(first, second);
    std::erase_if(both, [](const auto& each) { return each.second == 0; });
    EXPECT_EQ(both, whole) << name;
    EXPECT_EQ(first["convolution of weights"], 0) << name;
    EXPECT_EQ(second["convolution of inputs"], 0) << name;
    // A translator's target side lies beside the way from its source's: all of that is late.
    const int norms = second["aten::native_batch_norm_backward"] + second["aten::native_layer_norm_backward"];
    EXPECT_EQ(norms > 0, name == "transformer") << name;
    EXPECT_GT(second["convolution of weights"] + second["aten::mm"], 0) << name;
  }
}

TEST(SplitBackward, WithNothingGivenIsAllLate) {
  Tail tail("lenet", 0.3, at::kDouble);
  const auto expected = tail.plain();
  tail.forward();
  auto late = backward_input(tail.roots(), tail.one(), {});
  EXPECT_FALSE(tail.leaf.grad().defined());
  backward_weight(std::move(late));
  const auto got = tail.take();
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i].defined() == expected[i].defined() && (!got[i].defined() || at::equal(got[i], expected[i]))) << i;
}

/// A parameter that a product and a sum use: one gradient, complete once.
TEST(SplitBackward, AddsWhatSeveralUsesOfAParameterGive) {
  const auto options = at::TensorOptions(at::kDouble);
  const auto weight = at::randn({5, 5}, options).requires_grad_(true), given = at::randn({5, 5}, options).requires_grad_(true);
  const auto value = [&] { return at::mm(at::mm(given, weight).add(weight).tanh(), weight.t()).mul(weight.exp()).sum(); };
  struct Count : torch::autograd::PostAccumulateGradHook {
    int& times;
    explicit Count(int& t) : times(t) {}
    void operator()(const at::Tensor&) override { ++times; }
  };
  const auto one = at::ones({}, options);
  torch::autograd::Engine::get_default_engine().execute({torch::autograd::impl::gradient_edge(value())}, {one}, false, false, true);
  const auto expected = std::exchange(weight.mutable_grad(), at::Tensor()), expected_given = std::exchange(given.mutable_grad(), at::Tensor());
  int times = 0;
  torch::autograd::impl::set_post_acc_grad_hooks(weight, std::make_unique<Count>(times));
  auto late = backward_input({torch::autograd::impl::gradient_edge(value())}, {one}, {given});
  EXPECT_EQ(times, 0);
  backward_weight(std::move(late));
  EXPECT_EQ(times, 1);
  EXPECT_TRUE(at::allclose(weight.grad(), expected, 1e-13, 1e-13));
  EXPECT_TRUE(at::allclose(given.grad(), expected_given, 1e-13, 1e-13));
}

const std::vector<std::string> kForms{"zb-h1", "zbv", "dualpipev"};

TEST(SplitBackward, TrainsAsTheBigBatchInFp64) {
  for (const auto* model : {"lenet", "mlp", "transformer[hidden=16,heads=2,layers=1,dropout=0.1]", "gpt[hidden=16,heads=2,layers=2,seq=8,vocab=17,dropout=0.1]"}) {
    testing::Trial trial{model};
    trial.label_smoothing = 0.1;
    const auto reference = train_rank(trial, 0, 1, nullptr);
    for (const auto& form : kForms)
      for (const int ranks : {1, 2, 3, 4}) {
        if (std::string_view(model) == "mlp" && ranks * (form == "zb-h1" ? 1 : 2) > 4) continue;
        // Of the last batch, of 5, a sixth micro-batch is empty.
        trial.strategy = fmt::format("pipeline[schedule={},micro={}]", form, ranks == 3 ? 6 : 4);
        expect_equal(train(trial, ranks), reference, fmt::format("{} {} {}", model, trial.strategy, ranks));
      }
  }
}

TEST(SplitBackward, TrainsWithWhatIsRunAgainAndClipped) {
  for (const auto* model : {"lenet", "gpt[hidden=16,heads=2,layers=2,seq=8,vocab=17,dropout=0.1]"}) {
    testing::Trial trial{model};
    trial.clip = 0.05;
    const auto reference = train_rank(trial, 0, 1, nullptr);
    EXPECT_GT(reference.updates.clipped, 0);
    for (const auto& form : kForms)
      for (const auto* again : {"always", "except-last"}) {
        trial.strategy = fmt::format("pipeline[schedule={},micro=4,recompute={}]", form, again);
        expect_equal(train(trial, 2), reference, fmt::format("{} {}", model, trial.strategy));
      }
  }
}

// Batch norm normalises by micro-batch: the reference accumulates the gradients of the same ones. Shortcuts cross stages.
TEST(SplitBackward, TrainsAsAccumulationWithBatchNorm) {
  testing::Trial trial{"resnet", "", 4, 2};
  trial.network = testing::wide_resnet;
  trial.accumulate = 2;
  const auto reference = train_rank(trial, 0, 1, nullptr);
  for (const auto& form : kForms)
    for (const auto* rest : {"", ",balance=count,recompute=except-last"}) {
      trial.strategy = fmt::format("pipeline[schedule={},micro=2{}]", form, rest);
      const int ranks = std::string_view(rest).empty() ? 3 : 2;
      expect_equal(train(trial, ranks), reference, fmt::format("{} {}", trial.strategy, ranks));
    }
}

// Gradients of replicas are exchanged as soon as the last second part has completed them.
TEST(SplitBackward, TrainsReplicatedStages) {
  for (const auto* model : {"lenet", "gpt[hidden=16,heads=2,layers=2,seq=8,vocab=17,dropout=0.1]"}) {
    testing::Trial trial{model};
    const auto reference = train_rank(trial, 0, 1, nullptr);
    for (const auto& form : kForms) {
      trial.make = [&](const StrategyInput& input) {
        const PipelineSchedule schedule = builtin_pipeline_schedules().at(form).make;
        PipelineShape shape{2, 4, schedule.least_chunks};
        Pipeline pipeline{schedule.order(shape), {}, shape.micro_batches, 2};
        const int layers = static_cast<int>(input.graph.layers.size());
        for (int stage = 0; stage < shape.stages(); ++stage) pipeline.cuts.push_back(stage * layers / shape.stages());
        return pipeline_plan(input, pipeline);
      };
      const auto outcomes = train(trial, 4);
      expect_equal(outcomes, reference, fmt::format("{} {}", model, form));
      EXPECT_TRUE(testing::same_bits(testing::whole(train(trial, 4), form), testing::whole(outcomes, form))) << form;
    }
  }
}

TEST(SplitBackward, RepeatsBitByBit) {
  for (const auto& form : kForms) {
    testing::Trial trial{"transformer[hidden=16,heads=2,layers=1,dropout=0.1]", fmt::format("pipeline[schedule={},micro=3]", form), 6, 4, at::kFloat, Kernels::fast};
    EXPECT_TRUE(testing::same_bits(testing::whole(train(trial, 2), "first"), testing::whole(train(trial, 2), "second"))) << form;
  }
}

}  // namespace
}  // namespace ddl
