#include "ddl/predict/emulated/emulated_costs.h"

#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/nn/builtin.h"
#include "ddl/predict/predict_step.h"
#include "ddl/strategy/builtin.h"

namespace ddl {
namespace {

/// Every layer takes `unit`; a collective 5 ms on all cores; without `loads` nothing is known of loaders and the harness.
class Flat final : public CostSource {
 public:
  Flat(double unit, bool loads) : unit_(unit), loads_(loads) {}
  LayerCost layer(int, const ModelGraph& graph, std::size_t number, std::int64_t) const override {
    return graph.layers[number].kind == LayerKind::input ? LayerCost{} : LayerCost{unit_, unit_, unit_};
  }
  TaskCost collective(Goal, std::int64_t, const std::vector<int>&, StepCosts& resources) const override { return {5e-3, {{resources.resource("cores"), 0.5}}}; }
  TaskCost message(std::int64_t, int, int, StepCosts&) const override { return {1e-3}; }
  TaskCost compressing(int, const std::string&, std::int64_t, int, StepCosts&) const override { return {2e-3}; }
  double update(int, std::int64_t) const override { return unit_; }
  double copy(int, std::int64_t) const override { return unit_ / 4; }
  LayerCost loss(int, const ModelGraph&, std::int64_t) const override { return {unit_, unit_, 0}; }
  double load(int, std::int64_t) const override { return known(2e-4); }
  TaskCost loader(int, std::int64_t, StepCosts&) const override { return {known(1e-4)}; }
  TaskCost harness(int, double, StepCosts&) const override { return {known(1e-5)}; }
  Jitter jitter(int) const override { return {0.1}; }
  std::vector<Demand> computing(int, StepCosts& resources) const override { return {{resources.resource("cores"), 0.5}}; }

 private:
  double known(double value) const {
    if (!loads_) throw Error(Code::not_found, "[flat] not measured; run ddlbench probe compute");
    return value;
  }
  double unit_;
  bool loads_;
};

ModelGraph lenet() { return builtin_models().at("lenet").make({"lenet", {}}, {1, 28, 28, 10}); }

std::unique_ptr<EmulatedCosts> costs(std::vector<double> slow, bool loads = true) {
  const auto profile = std::make_shared<Flat>(1e-3, false);
  std::vector<EmulatedDevice> devices;
  for (const double each : slow) devices.push_back({each > 0 ? profile : nullptr, each > 0 ? each : 1});
  return std::make_unique<EmulatedCosts>(std::make_unique<Flat>(7e-3, loads), std::move(devices));
}

TEST(EmulatedCosts, ASlowerProcessorTakesSoManyTimesWhatTheMachineDoes) {
  const auto graph = lenet();
  std::vector<EmulatedDevice> devices{{nullptr, 1}, {nullptr, 4}};
  const EmulatedCosts source(std::make_unique<Flat>(7e-3, true), std::move(devices));
  EXPECT_DOUBLE_EQ(source.layer(1, graph, 1, 8).forward, 4 * source.layer(0, graph, 1, 8).forward);
  EXPECT_DOUBLE_EQ(source.update(1, 100), 4 * source.update(0, 100));
  // Its steps vary as they did; it is there with all of its cores.
  EXPECT_DOUBLE_EQ(source.jitter(2).sigma, Flat(7e-3, true).jitter(2).sigma);
  StepCosts resources;
  EXPECT_EQ(source.computing(1, resources).size(), 1U);
  EXPECT_DOUBLE_EQ(source.load(1, 8), source.load(0, 8));
}

TEST(EmulatedCosts, ComputeIsOfTheWorkersOwnProfileAndAllElseOfTheMachine) {
  const auto graph = lenet();
  const auto source = costs({1, 3, 0});
  EXPECT_DOUBLE_EQ(source->layer(0, graph, 1, 8).backward(), 2e-3);
  EXPECT_DOUBLE_EQ(source->layer(1, graph, 1, 8).forward, 3e-3);
  EXPECT_DOUBLE_EQ(source->layer(2, graph, 1, 8).forward, 7e-3);
  EXPECT_DOUBLE_EQ(source->loss(1, graph, 8).forward, 3e-3);
  EXPECT_DOUBLE_EQ(source->update(1, 100), 3e-3);
  EXPECT_DOUBLE_EQ(source->copy(0, 100), 0.25e-3);
  StepCosts resources;
  EXPECT_TRUE(source->computing(0, resources).empty());
  EXPECT_EQ(source->computing(2, resources).size(), 1U);
  EXPECT_DOUBLE_EQ(source->collective(Goal::all_reduce, 100, {0, 1}, resources).seconds, 5e-3);
  EXPECT_DOUBLE_EQ(source->compressing(0, "int8", 100, 2, resources).seconds, 2e-3);
  EXPECT_DOUBLE_EQ(source->message(100, 0, 1, resources).seconds, 1e-3);
  EXPECT_DOUBLE_EQ(source->harness(0, 1, resources).seconds, 1e-5);
}

TEST(EmulatedCosts, LoadersThatWereNotMeasuredCostAnEmulatedWorkerNothing) {
  const auto source = costs({1, 0}, false);
  StepCosts resources;
  EXPECT_EQ(source->load(0, 8), 0);
  EXPECT_EQ(source->harness(0, 1, resources).seconds, 0);
  EXPECT_EQ(source->loader(0, 8, resources).seconds, 0);
  EXPECT_THROW(source->load(1, 8), Error);
  EXPECT_THROW(source->harness(1, 1, resources), Error);
}

// Eight workers that compute take four times as long on cores for two of them; emulated ones do not.
TEST(EmulatedCosts, EmulatedWorkersTakeNoCores) {
  const auto graph = lenet();
  const Spec strategy{"data", {}};
  const auto plan = builtin_strategies().at("data").make({graph, 8, 64, 4, strategy});
  const auto seconds = [&](const CostSource& source) { return predict_step({plan, graph, strategy, 64, source, 0, Engine::simulated, true}).seconds; };
  const auto emulated = costs(std::vector<double>(8, 1));
  const double alone = seconds(*emulated), shared = seconds(EmulatedCosts(std::make_unique<Flat>(1e-3, true), std::vector<EmulatedDevice>(8)));
  double compute = 2e-3;
  for (const auto& layer : graph.layers) compute += layer.kind == LayerKind::input ? 0 : 3e-3;
  EXPECT_GT(alone, compute);
  EXPECT_LT(alone, 1.5 * compute);
  EXPECT_GT(shared, 3 * compute);
  // The slowest is who all wait for.
  const auto one_slow = costs({1, 1, 1, 1, 1, 1, 1, 3});
  EXPECT_GT(seconds(*one_slow), 2.5 * alone);
}

}  // namespace
}  // namespace ddl
