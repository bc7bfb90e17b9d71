#include "ddl/predict/predict_step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>

#include "ddl/core/error.h"
#include "ddl/nn/builtin.h"
#include "ddl/nn/graph_builder.h"
#include "ddl/predict/datasheet/library.h"
#include "ddl/predict/datasheet/machine_source.h"
#include "ddl/strategy/builtin.h"
#include "ddl/strategy/split_parts.h"

namespace ddl {
namespace {

struct Asked {
  std::string strategy;
  int workers = 1;
  std::int64_t batch = 64;
  std::string model = "resnet50", machine = "v100-16gb", precision = "fp32";
  SampleShape shape = {3, 224, 224, 1000};
  Engine engine = Engine::automatic;
};

StepPrediction predicted(const Asked& asked) {
  const auto model = parse_spec(asked.model), strategy = parse_spec(asked.strategy);
  const auto graph = builtin_models().at(model.name).make(model, asked.shape);
  const auto plan = builtin_strategies().at(strategy.name).make({graph, asked.workers, asked.batch, 4, strategy});
  const auto part = plan.split.empty() ? graph : graph_of(plan, graph, 0);
  const auto source = datasheet_source(find_machine(asked.machine), asked.precision, 1);
  return predict_step({plan, part, strategy, asked.batch, *source, kDatasheetSigma, asked.engine});
}

double sum_of(const Ledger& ledger) {
  double sum = 0;
  for (const double part : ledger.seconds) sum += part;
  return sum;
}

// A V100 trains ResNet-50 in fp32 at 300 to 400 images/s (NVIDIA's DeepLearningExamples; MLPerf v0.5): 64 in 160 to 213 ms.
TEST(PredictStep, AResNetOnADatasheet) {
  const auto one = predicted({"single", 1});
  EXPECT_GT(one.seconds, 0.13);
  EXPECT_LT(one.seconds, 0.27);
  EXPECT_LT(one.low, one.seconds);
  EXPECT_GT(one.high, one.seconds);
  EXPECT_NEAR(sum_of(one.mean), one.mean.wall, 1e-6 * one.mean.wall);
  EXPECT_NEAR(one.mean.wall, one.seconds, 1e-3 * one.seconds);
  EXPECT_GT(one.most.total(), std::int64_t{1} << 30);
}

// Messages and collectives of one device, as far as bytes are on their way.
TEST(PredictStep, WhatADeviceHasTowardsOthersOfItsNodeIsShared) {
  auto machine = find_machine("a100-80gb");
  const auto source = datasheet_source(machine, "fp32", 1);
  const auto share_of = [](const TaskCost& cost, int resource) {
    for (const auto& demand : cost.demands)
      if (demand.resource == resource) return demand.share;
    return 0.0;
  };
  StepCosts costs;
  costs.each_alone = false;
  const auto large = source->collective(Goal::all_reduce, 256 << 20, {0, 1, 2, 3}, costs), small = source->collective(Goal::all_reduce, 64, {0, 4}, costs);
  const int out_of_first = costs.resource("links out of device 0"), into_fourth = costs.resource("links into device 4");
  EXPECT_EQ(large.demands.size(), 8U) << "out of four and into them";
  EXPECT_GT(share_of(large, out_of_first), 0.9);
  EXPECT_LE(share_of(large, out_of_first), 1);
  EXPECT_LT(share_of(small, out_of_first), 0.05) << "calls start";
  EXPECT_DOUBLE_EQ(share_of(source->message(64 << 20, 0, 4, costs), out_of_first) + share_of(source->message(64 << 20, 4, 0, costs), into_fourth), 0.25) << "half of the ways out, and each end says half of that";
  costs.each_alone = true;
  EXPECT_NEAR(share_of(source->collective(Goal::all_reduce, 256 << 20, {0, 1, 2, 3}, costs), out_of_first), share_of(large, out_of_first) / 4, 1e-12) << "all four say so";
  // Whether one stands for all or each for itself; and the closed form, which goes by none of it, says so.
  machine["node"]["bus_bandwidth"] = 2e9;
  const auto slow = datasheet_source(machine, "fp32", 1);
  const auto spec = parse_spec("hybrid[data=2,tensor=4]");
  const auto model = parse_spec("gpt[hidden=256,layers=4,heads=8]");
  const auto graph = builtin_models().at("gpt").make(model, {.classes = 1'000, .objective = Objective::language, .target_length = 129});
  const auto plan = builtin_strategies().at("hybrid").make({graph, 8, 64, 4, spec});
  const auto part = graph_of(plan, graph, 0);
  const auto of = [&](Engine engine, bool by_worker) { return predict_step({plan, part, spec, 64, *slow, kDatasheetSigma, engine, by_worker}); };
  const auto shared = of(Engine::simulated, false), closed = of(Engine::closed, false);
  EXPECT_NEAR(of(Engine::simulated, true).seconds / shared.seconds, 1, 0.02);
  EXPECT_TRUE(closed.alone);
  EXPECT_LE(closed.seconds, 1.001 * shared.seconds);
  EXPECT_FALSE(predicted({.strategy = "data", .workers = 8, .batch = 256, .engine = Engine::closed}).alone) << "buckets go one after the other";
}

// More workers are faster, but less than in proportion: what is exchanged shows.
TEST(PredictStep, ScalingLosesToCommunication) {
  double before = predicted({"data", 1, 256}).seconds;
  for (const int workers : {2, 4, 8, 16}) {
    const auto now = predicted({"data", workers, 256});
    EXPECT_LT(now.seconds, before) << workers;
    EXPECT_GT(now.seconds, before / 2) << workers;
    before = now.seconds;
  }
}

// Of steps some of which average the ledger is the mean step's, not that of the one that does.
TEST(PredictStep, ALedgerIsOfTheMeanStepOfARound) {
  const auto of = [](Engine engine) { return predicted({"local[every=8]", 8, 128, "resnet50", "v100-16gb", "fp32", {3, 224, 224, 1000}, engine}); };
  const auto simulated = of(Engine::simulated), closed = of(Engine::closed);
  EXPECT_NEAR(sum_of(simulated.mean) / simulated.mean.wall, 1, 1e-6);
  EXPECT_NEAR(simulated.mean.wall / simulated.seconds, 1, 1e-3);
  const auto talk = [](const StepPrediction& step) { return step.mean[Cause::communication] + step.mean[Cause::wait]; };
  // The closed form hides nothing of an averaging, the simulator what it can.
  EXPECT_GT(talk(simulated), 0);
  EXPECT_LT(talk(simulated), 1.05 * talk(closed));
}

// Eight in one node and one in another: its one device's wires carry what the ring carries.
TEST(PredictStep, TheLeastFilledNodeSetsARingsPace) {
  const auto seconds = [](int workers) {
    const auto source = datasheet_source(find_machine("a100-80gb"), "fp32", 1);
    StepCosts costs;
    std::vector<int> all;
    for (int worker = 0; worker < workers; ++worker) all.push_back(worker);
    return source->collective(Goal::all_reduce, 512 << 20, all, costs).seconds;
  };
  EXPECT_GT(seconds(9), 4 * seconds(16));
  EXPECT_LT(seconds(12), 0.5 * seconds(9));
}

TEST(PredictStep, BothEnginesAgreeOnADatasheet) {
  for (const auto* strategy : {"data", "data[overlap=off]", "pipeline[schedule=gpipe,micro=8]", "pipeline[schedule=1f1b,micro=8]", "sharded[level=2]", "local[every=4]", "sharded[level=3]", "sharded[level=3,prefetch=3]",
                               "sharded[level=3,reshard=off]", "parameter-server", "parameter-server[servers=4]", "parameter-server[async,servers=4]", "parameter-server[stale=1,servers=2]", "local[average=gossip,every=2]", "local[average=gossip,topology=exponential,every=1]",
                               "pipeline[schedule=pipedream]", "pipeline[schedule=pipedream-2bw,micro=8]", "pipeline[schedule=interleaved-1f1b,micro=8,chunks=2]", "pipeline[schedule=looped-bfs,micro=8,chunks=2]", "pipeline[schedule=zb-h1,micro=8]",
                               "pipeline[schedule=zbv,micro=8]", "pipeline[schedule=dualpipev,micro=8]", "pipeline[schedule=zb-h1,micro=8,stages=30/60/40/45]", "hybrid[data=2,pipeline=2,schedule=zb-h1,micro=8]",
                               "pipeline[replicas=3/1,micro=6]", "pipeline[schedule=gpipe,replicas=1/3,micro=6]", "pipeline[schedule=pipedream,replicas=2/2]", "pipeline[schedule=pipedream-2bw,replicas=2/1/1]", "data[in-process=parallel]"}) {
    const double simulated = predicted({strategy, 4, 128, "resnet50", "v100-16gb", "fp32", {3, 224, 224, 1000}, Engine::simulated}).seconds;
    const double closed = predicted({strategy, 4, 128, "resnet50", "v100-16gb", "fp32", {3, 224, 224, 1000}, Engine::closed}).seconds;
    // Where all are servers each device has messages from several at once, of which the closed form knows nothing.
    EXPECT_NEAR(closed / simulated, 1, std::string(strategy) == "parameter-server[servers=4]" ? 0.05 : 0.02) << strategy;
  }
}

constexpr SampleShape kWords{.classes = 51'200, .objective = Objective::language, .target_length = 1025};

// Of three parts and one the larger takes as long as in a batch of which all have as much.
TEST(PredictStep, UnequalSharesOfABatchTakeAsLongAsTheLargest) {
  const double even = predicted({"data", 2, 128}).seconds;
  EXPECT_NEAR(predicted({"data[shares=1/1]", 2, 128}).seconds, even, 1e-9 * even);
  const auto uneven = predicted({"data[shares=3/1]", 2, 128});
  EXPECT_EQ(uneven.engine, Engine::simulated);
  EXPECT_NEAR(uneven.seconds / predicted({"data", 2, 192}).seconds, 1, 0.01);
  Asked closed{"data[shares=3/1]", 2, 128};
  closed.engine = Engine::closed;
  EXPECT_NEAR(predicted(closed).seconds / uneven.seconds, 1, 0.02);
  EXPECT_NEAR(predicted({"data[shares=1/3]", 2, 128}).seconds, uneven.seconds, 1e-9 * even);
  EXPECT_EQ(uneven.most.total(), predicted({"data", 2, 192}).most.total()) << "as planned for who has most";
  EXPECT_GT(uneven.mean[Cause::wait] + uneven.mean[Cause::communication], 0.2 * uneven.mean.wall);
}

// By both engines, asynchronous ones, too.
TEST(PredictStep, EveryStrategyHasOneWhoseLedgersAddUp) {
  for (const auto engine : {Engine::simulated, Engine::closed})
    for (const auto* strategy : {"model", "pipeline[schedule=zbv,micro=8]", "pipeline[schedule=pipedream]", "pipeline[schedule=pipedream-2bw,micro=4]", "pipeline[replicas=2/2,micro=4]", "sharded[level=3]", "local[average=gossip]",
                                 "parameter-server[servers=2]", "parameter-server[async]", "parameter-server[stale=2,servers=2]", "hybrid[data=2,pipeline=2,micro=4]", "data[in-process=parallel]", "data[in-process=parallel,overlap=on]",
                                 "data[in-process=mirrored]"}) {
      Asked asked{strategy, 4, 64};
      asked.engine = engine;
      const auto found = predicted(asked);
      EXPECT_EQ(found.engine, engine) << strategy;
      EXPECT_GT(found.seconds, 0) << strategy;
      for (const auto& ledger : found.roles) EXPECT_NEAR(sum_of(ledger), ledger.wall, 1e-6 * ledger.wall) << strategy;
      // Pipelines have bubbles, replicas that wait for who leads them do not.
      if (!std::string_view(strategy).starts_with("data[in-process=parallel")) continue;
      for (const auto& ledger : found.roles) EXPECT_NEAR(ledger.wall, found.seconds, 0.005 * found.seconds) << strategy;
      EXPECT_EQ(found.mean[Cause::bubble], 0) << strategy;
      EXPECT_GT(found.mean[Cause::communication], 0) << strategy;
    }
}

// A GPT over 1,024 workers in three dimensions, planned and simulated; 100,000 of one dimension, priced. A second of processor time each (the bound).
TEST(PredictStep, ThousandsOfWorkersTakeASecond) {
  const auto seconds = [](const auto& body) {
    const auto begin = std::clock();
    body();
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  const char* gpt = "gpt[hidden=4096,layers=32,heads=32,seq=1024,vocab=51200]";
  EXPECT_LT(seconds([&] { EXPECT_GT(predicted({"hybrid[data=16,pipeline=8,tensor=8,micro=16]", 1024, 512, gpt, "a100-80gb", "bf16", kWords, Engine::simulated}).seconds, 0); }), 1.0);
  EXPECT_LT(seconds([&] { EXPECT_GT(predicted({"data", 100'000, 200'000, "resnet50", "a100-80gb", "tf32", {3, 224, 224, 1000}, Engine::closed}).seconds, 0); }), 1.0);
}

TEST(Machines, AreFoundByWhatPeopleCallThem) {
  EXPECT_EQ(find_machine("h100").value("name", ""), "h100-80gb");
  EXPECT_EQ(find_machine("H100-80GB").value("name", ""), "h100-80gb");
  EXPECT_EQ(find_machine("A100").value("name", ""), "a100-80gb");
  EXPECT_EQ(find_machine("k80").value("name", ""), "k80");
  for (const auto* name : {"", "k8", "h1", "a1000"}) EXPECT_THROW(find_machine(name), Error) << name;
}

TEST(PredictStep, AProfileWithoutATermNamesIt) {
  auto machine = find_machine("v100-16gb");
  machine["device"].erase("memory_bandwidth");
  try {
    datasheet_source(machine, "fp32", 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("device.memory_bandwidth"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("a datasheet says: no probe measures it (docs/machine.md, \"Profiles of datasheets\")"), std::string::npos) << error.what();
  }
}

// An LSTM goes from place to place, each of which waits for the one before: twice as many take twice as long, however little they multiply, and more samples hardly any longer while a GPU is far from full.
TEST(PredictStep, AnLstmWaitsForItself) {
  const auto source = datasheet_source(find_machine("h100-80gb"), "fp32", 1);
  const auto of = [&](std::int64_t places, std::int64_t samples) {
    GraphBuilder net("lstm");
    net.lstm("lstm", net.embedding("words", net.input("source", InputPart::source, {places}), 1000, 512, {}), 512, torch_weights);
    const auto graph = std::move(net).finish();
    return source->layer(0, graph, graph.layers.size() - 1, samples);
  };
  const auto few = of(32, 16), twice = of(64, 16), many = of(32, 64);
  EXPECT_GT(few.forward, 32 * 5e-6) << "at least a kernel for each place";
  EXPECT_NEAR(twice.forward / few.forward, 2, 0.1);
  EXPECT_NEAR(twice.backward_input / few.backward_input, 2, 0.1);
  EXPECT_LT(many.forward, 1.5 * few.forward);
  // The gradients of its weights are two products of all places.
  EXPECT_LT(few.backward_weight, few.backward_input / 4);
}

// What processors reach stands in their profile; without it nothing is assumed.
TEST(PredictStep, ProcessorsReachWhatTheirProfileSays) {
  auto machine = find_machine("cpu-avx512");
  const auto graph = builtin_models().at("resnet50").make(parse_spec("resnet50"), {3, 224, 224, 1000});
  const auto seconds = [&](const char* term, double value) {
    auto other = machine;
    other["device"]["efficiency"][term] = value;
    double sum = 0;
    const auto source = datasheet_source(other, "fp32", 1);
    for (std::size_t i = 0; i < graph.layers.size(); ++i) sum += source->layer(0, graph, i, 64).forward;
    return sum;
  };
  const double shipped = seconds("call_us", 4);
  EXPECT_GT(seconds("compute", 0.2), 1.5 * shipped);
  EXPECT_GT(seconds("memory", 0.1), shipped);
  // All but the input and what is only looked at otherwise are called.
  const auto called = std::count_if(graph.layers.begin(), graph.layers.end(), [](const Layer& layer) { return layer.kind != LayerKind::input && !layer.keeps.view; });
  EXPECT_NEAR(seconds("call_us", 1004) - shipped, 1e-3 * static_cast<double>(called), 1e-9);
  for (const auto* term : {"compute", "memory", "call_us"}) {
    auto other = machine;
    other["device"]["efficiency"].erase(term);
    try {
      datasheet_source(other, "fp32", 1);
      ADD_FAILURE() << term;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(fmt::format("device.efficiency.{}", term)), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace ddl
