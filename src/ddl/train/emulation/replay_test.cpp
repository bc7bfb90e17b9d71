#include "ddl/train/emulation/replay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "ddl/core/error.h"
#include "ddl/strategy/partition/crossing.h"
#include "ddl/train/emulation/replayed_optimizer.h"
#include "ddl/train/trial_testing.h"

namespace ddl {
namespace {

using testing::Trial;

/// All samples in each step, so that no micro-batch is empty.
Trial whole_batches(const std::string& strategy) {
  Trial trial;
  trial.strategy = strategy;
  trial.batch = testing::kSamples;
  return trial;
}

/// Times that tell layers and parts apart, in whole nanoseconds, for any number of samples.
class Countable final : public CostSource {
 public:
  explicit Countable(double copies = 0, double updates = 0) : copies_(copies), updates_(updates) {}
  LayerCost layer(int, const ModelGraph&, std::size_t number, std::int64_t) const override {
    const auto n = static_cast<double>(number + 1);
    return {n * 1e-6, n * 3e-6, n * 7e-6};
  }
  LayerCost loss(int, const ModelGraph&, std::int64_t) const override { return {11e-6, 13e-6, 0}; }
  double update(int, std::int64_t bytes) const override { return updates_ * static_cast<double>(bytes); }
  double copy(int, std::int64_t bytes) const override { return copies_ * static_cast<double>(bytes); }
  TaskCost collective(Goal, std::int64_t, const std::vector<int>&, StepCosts&) const override { return {}; }
  TaskCost message(std::int64_t, int, int, StepCosts&) const override { return {}; }
  TaskCost compressing(int, const std::string&, std::int64_t, int, StepCosts&) const override { return {}; }
  double load(int, std::int64_t) const override { return 0; }
  TaskCost loader(int, std::int64_t, StepCosts&) const override { return {}; }
  TaskCost harness(int, double, StepCosts&) const override { return {}; }

 private:
  double copies_, updates_;
};

/// Time passes where something is waited for, and only there.
WaitClock made_up_clock() {
  const auto time = std::make_shared<Nanoseconds>(1);
  return {[time] { return *time; }, [time](Nanoseconds due) { *time = std::max(*time, due); }};
}

/// One pass of all of a network's layers, forward and backward, with the gradients that are wanted.
double whole_pass(const ModelGraph& graph, bool forward_twice = false) {
  const Countable costs;
  const auto learns = learning_layers(graph);
  double sum = 24e-6;
  for (std::size_t l = 0; l < graph.layers.size(); ++l) {
    const auto& layer = graph.layers[l];
    if (layer.kind == LayerKind::input) continue;
    const auto cost = costs.layer(0, graph, l, 1);
    sum += (forward_twice ? 2 : 1) * cost.forward;
    if (std::any_of(layer.inputs.begin(), layer.inputs.end(), [&](int input) { return learns[static_cast<std::size_t>(input)]; })) sum += cost.backward_input;
    if (!layer.parameters.empty() || !layer.borrowed.empty()) sum += cost.backward_weight;
  }
  return sum;
}

struct Replayed {
  double compute = 0, taken = 0;  ///< s
  bool still = true;              ///< its parameters are as they were
  std::int64_t parameter_bytes = 0;
};

Replayed replay_rank(const Trial& trial, int rank, int ranks, Communicator* communicator, std::shared_ptr<const CostSource> source) {
  const auto data = testing::data_for(trial.model, -1, 1);
  const auto model = parse_spec(trial.model);
  const auto device = make_device("emulated:v100");
  EXPECT_EQ(device->name(), "emulated:v100");
  const auto graph = builtin_models().at(model.name).make(model, data->shape());
  Recipe recipe;
  recipe.shape = data->shape();
  recipe.precision = trial.precision;
  recipe.clip = trial.clip;
  recipe.recompute = trial.recompute;
  const auto spec = parse_spec(trial.strategy);
  StrategyInput input{graph, ranks, trial.batch, 4, spec, {}, trial.accumulate};
  input.whole_gradient = Executor::needs_whole_gradient(recipe);
  const auto plan = builtin_strategies().at(spec.name).make(input);
  Network network(StageRunner::prepare(graph_of(plan, graph, rank), plan.stages), {at::kFloat, device->where(), Kernels::fast, 7, layers_of(plan, rank)});
  std::unique_ptr<ParameterShards> shards;
  if (ParameterShards::needed(plan, rank)) shards = std::make_unique<ParameterShards>(plan, rank, network, communicator->transport(), *device, true);
  ReplayedOptimizer optimizer(shards ? shards->own() : network.parameters(), 0, std::make_shared<SharedWaits>(made_up_clock()));
  std::vector<at::Tensor> before;
  if (!shards)
    for (const auto& parameter : network.parameters()) before.push_back(parameter.detach().clone());
  Replay replay(network, plan, std::move(source), rank, 1, trial.precision, made_up_clock());
  Replayed out;
  {
    Executor executor(network, optimizer, *device, communicator, rank, recipe, Exchange{}, shards.get());
    executor.replay_with(replay);
    executor.serve_with([](std::vector<at::Tensor> parameters) { return std::make_unique<ReplayedOptimizer>(std::move(parameters), 0, std::make_shared<SharedWaits>(made_up_clock())); });
    executor.adopt(plan);
    executor.ends_with(trial.steps - 1);
    const Sampler sampler(data->size(), trial.batch, plan.shares(), true, 3, [&](std::int64_t index) { return data->weight(index); });
    Loader loader(*data, [&](std::int64_t step) { return sampler.share(step, plan.share_of(rank)); }, 0, trial.steps, {0, 1, !is_given_inputs(plan, rank)});
    for (std::int64_t step = 0; step < trial.steps; ++step) {
      const auto result = executor.step(step, [&] { return loader.next(); }, trial.rate, false);
      EXPECT_EQ(result.loss, 0) << trial.strategy;
      EXPECT_FALSE(result.stop);
    }
    executor.converge();
    if (communicator) communicator->barrier().wait();
  }
  for (std::size_t i = 0; i < before.size(); ++i) {
    out.still &= at::equal(before[i], network.parameters()[i]);
    out.parameter_bytes += static_cast<std::int64_t>(before[i].nbytes());
  }
  const auto report = replay.waits().report();
  out.compute = report.compute;
  out.taken = report.taken;
  return out;
}

std::vector<Replayed> replay(const Trial& trial, int ranks, const std::shared_ptr<const CostSource>& source = std::make_shared<Countable>()) {
  return on_ranks(ranks, [&](Communicator& communicator) { return replay_rank(trial, communicator.rank(), ranks, &communicator, source); });
}

double compute_of(const std::vector<Replayed>& all) {
  double sum = 0;
  for (const auto& each : all) sum += each.compute;
  return sum;
}

ModelGraph graph_of_model(const std::string& text) {
  const auto spec = parse_spec(text);
  return builtin_models().at(spec.name).make(spec, testing::data_for(text, -1, 1)->shape());
}

// Networks with values that several layers read, tied weights, words, dropout and batch statistics: every layer is charged once, and each of its gradients that is wanted.
TEST(Replay, AStepTakesWhatItsLayersTake) {
  for (const auto* model : {"lenet", "resnet18", "mobilenetv2", "transformer[layers=1,hidden=16,heads=2]", "gpt[hidden=16,layers=2,heads=2]"}) {
    auto trial = whole_batches("single");
    trial.model = model;
    trial.steps = 3;
    const auto found = replay_rank(trial, 0, 1, nullptr, std::make_shared<Countable>());
    EXPECT_NEAR(found.compute, 3 * whole_pass(graph_of_model(model)), 1e-9) << model;
    // The wait is over when it is due, by a clock that nothing else moves.
    EXPECT_NEAR(found.taken, found.compute, 1e-8) << model;
    EXPECT_TRUE(found.still) << model;
  }
}

// A micro-batch of each form goes once forward and once backward through every layer, wherever that is; where backward is in two parts, each part is charged when it is done.
TEST(Replay, EveryFormPassesEveryLayerAsOftenAsARealOne) {
  struct Form {
    std::string strategy;
    int ranks;
    double passes;  ///< of a step, all ranks together
  };
  for (const auto& form : std::vector<Form>{{"data", 3, 3}, {"model", 3, 1}, {"pipeline[schedule=gpipe,micro=6]", 3, 6}, {"pipeline[schedule=interleaved-1f1b,micro=6]", 3, 6},
                                            {"pipeline[schedule=zb-h1,micro=6]", 3, 6}, {"pipeline[schedule=zbv,micro=6]", 3, 6}, {"pipeline[schedule=dualpipev,micro=6]", 3, 6},
                                            {"pipeline[schedule=pipedream]", 3, 1}, {"pipeline[replicas=2/1,micro=6]", 3, 6}, {"sharded[level=1]", 3, 3}, {"sharded[level=2]", 3, 3},
                                            {"sharded[level=3,unit=1]", 3, 3}, {"local[every=2]", 3, 3}, {"local[every=2,average=gossip]", 3, 3}, {"parameter-server[servers=2]", 3, 3},
                                            {"parameter-server[async]", 3, 3}, {"hybrid[data=2,pipeline=2,micro=3]", 4, 6}, {"hybrid[data=2,sharded=2]", 4, 4}}) {
    const auto trial = whole_batches(form.strategy);
    const auto found = replay(trial, form.ranks);
    EXPECT_NEAR(compute_of(found), 4 * form.passes * whole_pass(graph_of_model("lenet")), 1e-8) << form.strategy;
    for (const auto& each : found) EXPECT_TRUE(each.still) << form.strategy;
  }
}

TEST(Replay, PartsOfASplitNetworkTakeTheirOwnTimes) {
  for (const auto* strategy : {"tensor", "tensor[split=height]", "hybrid[pipeline=2,tensor=2,micro=2]"}) {
    const auto trial = whole_batches(strategy);
    const auto found = replay(trial, std::string(strategy).starts_with("hybrid") ? 4 : 2);
    for (const auto& each : found) {
      EXPECT_GT(each.compute, 0) << strategy;
      EXPECT_TRUE(each.still) << strategy;
    }
  }
}

TEST(Replay, WhatIsRecomputedIsForwardTwice) {
  auto trial = whole_batches("pipeline[schedule=1f1b,micro=6,recompute=always]");
  const auto graph = graph_of_model("lenet");
  const double loss_again = 11e-6;
  EXPECT_NEAR(compute_of(replay(trial, 3)), 4 * 6 * (whole_pass(graph, true) + loss_again), 1e-8);
  trial.strategy = "single";
  trial.recompute = true;
  const auto once = replay_rank(trial, 0, 1, nullptr, std::make_shared<Countable>()).compute;
  EXPECT_GT(once, 4 * whole_pass(graph));
  EXPECT_LE(once, 4 * whole_pass(graph, true) + 1e-9);
}

TEST(Replay, GradientsAreCopiedAndParametersUpdatedInTheTimeOfAllTheirBytes) {
  auto trial = whole_batches("data");
  trial.steps = 5;
  const auto plain = replay(trial, 2), charged = replay(trial, 2, std::make_shared<Countable>(1e-9, 5e-9));
  for (std::size_t rank = 0; rank < 2; ++rank)
    // A bucket has one element more, the vote to stop.
    EXPECT_NEAR(charged[rank].compute - plain[rank].compute, 5 * (6e-9 * static_cast<double>(plain[rank].parameter_bytes) + 5e-9 * 4), 1e-8);
  trial.strategy = "single";
  const auto alone = replay_rank(trial, 0, 1, nullptr, std::make_shared<Countable>(1e-9, 5e-9));
  EXPECT_NEAR(alone.compute - 5 * whole_pass(graph_of_model("lenet")), 5 * 5e-9 * static_cast<double>(alone.parameter_bytes), 1e-8) << "without buckets nothing is copied";
}

TEST(Replay, AccumulatesClipsAndScalesWithoutArithmetic) {
  auto trial = whole_batches("data");
  trial.accumulate = 3;
  trial.clip = 1;
  EXPECT_NEAR(compute_of(replay(trial, 3)), 4 * 3 * 3 * whole_pass(graph_of_model("lenet")), 1e-8);
  trial.clip = 0;
  for (const auto* precision : {"bf16", "fp16"}) {
    trial.precision = precision;
    EXPECT_NEAR(compute_of(replay(trial, 3)), 4 * 3 * 3 * whole_pass(graph_of_model("lenet")), 1e-8) << precision;
  }
}

TEST(ZeroMemory, TensorsLieOverTheSameZeros) {
  ZeroMemory memory;
  const auto a = memory.tensor({4, 3}, {3, 1}, at::kFloat), b = memory.tensor({12}, {1}, at::kFloat);
  EXPECT_EQ(a.data_ptr(), b.data_ptr());
  EXPECT_EQ(a.abs().sum().item<float>(), 0);
  // Larger than any memory, as long as nobody looks.
  const std::int64_t large = std::int64_t{1} << 36;
  const auto c = memory.tensor({large}, {1}, at::kFloat);
  EXPECT_EQ(c.numel(), large);
  EXPECT_EQ(a.abs().sum().item<float>(), 0) << "earlier ones stay";
  const auto resident = memory.tensor({2, 3, 4, 5}, {60, 1, 15, 3}, at::kBFloat16, true);
  EXPECT_TRUE(resident.is_contiguous(at::MemoryFormat::ChannelsLast));
}

}  // namespace
}  // namespace ddl
