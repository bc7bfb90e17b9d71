#include "ddl/train/value_types.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ddl/nn/narrow_networks_testing.h"
#include "ddl/nn/network_testing.h"
#include "ddl/strategy/value_widths.h"
#include "ddl/train/autocast.h"
#include "ddl/train/trial_testing.h"

namespace ddl {
namespace {

/// Built-in networks, the smallest first, but for those all of whose kinds of layers, behind the kinds that they read, smaller ones have: their rules say nothing new, and fp16 takes a processor long.
std::vector<std::string> networks_of_new_kinds() {
  std::vector<std::pair<std::int64_t, std::string>> by_size;
  std::map<std::string, std::set<std::vector<LayerKind>>> kinds;
  for (const auto& name : builtin_models().names()) {
    const auto trial = tiny_trial(name);
    const auto spec = parse_spec(trial.spec);
    const auto graph = builtin_models().at(spec.name).make(spec, trial.shape);
    by_size.emplace_back(graph.parameters(), name);
    for (const auto& layer : graph.layers) {
      std::vector<LayerKind> around{layer.kind};
      for (const int from : layer.inputs) around.push_back(graph.layers[static_cast<std::size_t>(from)].kind);
      kinds[name].insert(std::move(around));
    }
  }
  std::sort(by_size.begin(), by_size.end());
  std::vector<std::string> names;
  std::set<std::vector<LayerKind>> seen;
  for (const auto& [size, name] : by_size) {
    const auto before = seen.size();
    seen.merge(kinds[name]);
    if (seen.size() > before) names.push_back(name);
  }
  return names;
}

// Plans are made without LibTorch, by rules; values of words have no width there.
TEST(ValueTypes, AreAsWideAsPlansSay) {
  for (const auto& name : builtin_models().names())
    for (const std::string precision : {"fp32", "bf16"}) {
      const auto trial = tiny_trial(name);
      const auto spec = parse_spec(trial.spec);
      const Network network(builtin_models().at(spec.name).make(spec, trial.shape), {.kernels = Kernels::fast});
      StrategyInput input{network.graph(), 1, 2};
      input.mixed = precision == "bf16";
      input.own_kernels = true;
      const ValueWidths planned(input);
      const auto types = value_types(network.graph(), network.tensor_options(), precision);
      for (std::size_t layer = 0; layer < types.size(); ++layer)
        if (types[layer] != at::kLong) {
          EXPECT_EQ(planned.bytes[layer], static_cast<std::int64_t>(c10::elementSize(types[layer]))) << name << " " << precision << " " << network.graph().layers[layer].name;
        }
    }
}

TEST(ValueTypes, AreThoseOfARealForward) {
  struct Form {
    std::vector<std::string> names;
    Kernels kernels;
    std::vector<const char*> precisions;
  };
  const auto all = builtin_models().names(), few = networks_of_new_kinds();
  for (const auto& [names, kernels, precisions] : {Form{all, Kernels::fast, {"fp32", "bf16"}}, Form{few, Kernels::torch, {"fp16"}}})
    for (const auto& name : names) {
      const auto trial = tiny_trial(name);
      const auto spec = parse_spec(trial.spec);
      Network network(builtin_models().at(spec.name).make(spec, trial.shape), {.kernels = kernels});
      const auto samples = made_up_samples(2, trial.shape, at::kFloat);
      for (const std::string precision : precisions) {
        const auto types = value_types(network.graph(), network.tensor_options(), precision);
        const Autocast autocast(at::kCPU, precision);
        std::vector<at::Tensor> values(network.graph().layers.size());
        ASSERT_EQ(types.size(), values.size());
        for (std::size_t layer = 0; layer < values.size(); ++layer) {
          values[layer] = network.forward_layer(layer, values, samples.input, true);
          EXPECT_EQ(types[layer], values[layer].scalar_type()) << name << " " << precision << " " << network.graph().layers[layer].name;
        }
        const bool any = std::any_of(types.begin(), types.end(), [](at::ScalarType type) { return type == at::kBFloat16 || type == at::kHalf; });
        EXPECT_EQ(any, precision != "fp32") << name << " " << precision;
      }
    }
}

// A message is of the value's own type: nothing is rounded on the way. What accumulates over the same micro-batches then has the same bits.
TEST(ValueTypes, PipelinesInSixteenBitsTrainAsOneWorkerDoes) {
  for (const auto* precision : {"bf16", "fp16"})
    for (const auto* model : {"lenet", "gpt[hidden=16,heads=2,layers=2,seq=8,vocab=17,dropout=0.1]", "transformer[hidden=16,heads=2,layers=1,dropout=0.1]", "resnet"}) {
      const bool tied = std::string_view(model).starts_with("gpt") || std::string_view(model).starts_with("transformer");
      testing::Trial trial{model, "", 4, 2, at::kFloat};
      if (trial.model == "resnet") trial.network = testing::wide_resnet;
      trial.accumulate = 2;
      trial.precision = precision;
      const auto reference = testing::train_rank(trial, 0, 1, nullptr);
      for (const auto* form : {"pipeline[schedule=1f1b,micro=2,recompute=always]", "pipeline[schedule=zb-h1,micro=2]"}) {
        trial.strategy = form;
        const auto got = testing::whole(testing::train(trial, 2), model);
        // Gradients of what several places use are summed in another order, those of a value that several stages read too.
        const auto what = fmt::format("{} {} {} {}", precision, model, form, testing::relative_error(got, reference.parameters));
        if (tied) {
          EXPECT_LT(testing::relative_error(got, reference.parameters), 1e-3) << what;
        } else {
          EXPECT_TRUE(testing::same_bits(got, reference.parameters)) << what;
        }
      }
    }
}

}  // namespace
}  // namespace ddl
