#include "ddl/train/measure_layers.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/nn/builtin.h"
#include "ddl/nn/model.h"
#include "ddl/nn/network.h"
#include "ddl/train/device.h"
#include "ddl/train/device_testing.h"
#include "ddl/train/plan_job.h"

namespace ddl {
namespace {

const SampleShape kImages{1, 28, 28, 10};

LayerSeconds measured(const ModelGraph& graph, const std::string& device = "cpu", const std::string& precision = "fp32", Seconds budget = Seconds{0.2}) {
  const auto made = test_device(device);
  return measure_layers(graph, {at::kFloat, made->where()}, *made, precision, 4, budget);
}

std::size_t number(const ModelGraph& graph, const std::string& name) {
  const auto found = std::find_if(graph.layers.begin(), graph.layers.end(), [&](const Layer& layer) { return layer.name == name; });
  return static_cast<std::size_t>(found - graph.layers.begin());
}

TEST(MeasureLayers, FindsTheOneThatTakesLong) {
  const auto graph = builtin_models().at("null").make(parse_spec("null[ms=30]"), kImages);
  const auto found = measured(graph);
  const auto wait = number(graph, "wait");
  EXPECT_GE(found.forward[wait], 0.03);
  for (std::size_t layer = 0; layer < graph.layers.size(); ++layer)
    if (layer != wait) {
      EXPECT_LT(found.forward[layer] + found.backward[layer], 0.03) << graph.layers[layer].name;
    }
  EXPECT_LT(found.backward[wait], 0.03) << "it waits in forward alone";
  EXPECT_EQ(found.backward[number(graph, "avgpool")], 0) << "nothing before it learns";
  EXPECT_GT(found.backward[number(graph, "fc")], 0);
}

// A product of half as many channels takes about half as long in training as the whole one does there; other layers go by their sums.
TEST(MeasureLayers, PartsTakeWhatTheyTakeOfTheWholeInTraining) {
  Job job;
  job.model = parse_spec("mlp[hidden=512,layers=3]");
  job.strategy = parse_spec("tensor");
  job.batch = 64;
  job.workers.assign(2, {});
  const auto graph = make_model(job.model, kImages);
  const std::vector<double> slow(graph.layers.size(), 1.0);
  // Whole and part are measured one after the other: a machine that others share may go at another pace by then, so of several tries one counts.
  std::vector<std::string> outside;
  for (int tries = 0; tries < 4; ++tries) {
    const auto found = measure_part(job, kImages, slow, slow, {0.3});
    ASSERT_EQ(found.forward.size(), found.graph.layers.size());
    ASSERT_EQ(found.input_shares.size(), found.graph.layers.size());
    int products = 0;
    outside.clear();
    for (std::size_t l = 0; l < found.graph.layers.size(); ++l) {
      const auto& layer = found.graph.layers[l];
      if (layer.kind == LayerKind::input || layer.kind == LayerKind::exchange) {
        EXPECT_EQ(found.forward[l], 0) << layer.name;
      }
      if (layer.kind != LayerKind::linear || layer.name == "fc4") continue;
      ++products;
      if (found.forward[l] <= 0.2 || found.forward[l] >= 0.9) outside.push_back(fmt::format("{} {:.3f}", layer.name, found.forward[l]));
    }
    EXPECT_GE(products, 2);
    if (outside.empty()) break;
  }
  EXPECT_TRUE(outside.empty()) << join(outside, ", ");
  for (const char* strategy : {"data", "hybrid[data=2,tensor=2]"}) {
    job.strategy = parse_spec(strategy);
    job.workers.assign(strategy[0] == 'd' ? 2 : 4, {});
    EXPECT_THROW(measure_part(job, kImages, slow, slow, {0.1}), Error) << strategy;
  }
}

// Every kind of layer by itself: words and images, tied weights, what is written over, auxiliary heads, frozen layers; on every device, and where values change their type.
TEST(MeasureLayers, RunsEveryKindOfLayer) {
  for (const auto& entry : builtin_models().entries()) {
    if (entry.name == "null") continue;
    auto shape = natural_shape(entry.name);
    if (shape.height > 64 && !entry.name.starts_with("inception")) shape.height = shape.width = 64;
    ModelGraph graph;
    try {
      graph = entry.make({entry.name, {}}, shape);
    } catch (const Error&) {
      graph = entry.make({entry.name, {}}, natural_shape(entry.name));
    }
    if (graph.parameters() > 30'000'000) continue;  // others have the same kinds
    const auto found = measured(graph, "cpu", "fp32", {0});
    ASSERT_EQ(found.forward.size(), graph.layers.size()) << entry.name;
    for (std::size_t layer = 0; layer < graph.layers.size(); ++layer) {
      EXPECT_EQ(found.forward[layer] > 0, graph.layers[layer].kind != LayerKind::input) << entry.name << " " << graph.layers[layer].name;
      EXPECT_GE(found.backward[layer], 0);
    }
  }
  const auto graph = builtin_models().at("transformer").make(parse_spec("transformer[hidden=16,heads=2,layers=1]"), natural_shape("transformer"));
  for (const auto& device : test_devices())
    for (const auto* precision : {"fp32", "bf16"}) EXPECT_GT(measured(graph, device, precision, {0}).forward.back(), 0) << device << " " << precision;
}

TEST(MeasureLayers, RunsOneOfEachSort) {
  const auto graph = builtin_models().at("resnet50").make({"resnet50", {}}, {3, 32, 32, 10});
  const auto found = measured(graph, "cpu", "fp32", {0});
  EXPECT_LT(found.sorts, 80);
  EXPECT_GT(graph.layers.size(), 150U);
  EXPECT_EQ(found.forward[number(graph, "layer3.2.conv2")], found.forward[number(graph, "layer3.4.conv2")]);
  EXPECT_NE(found.forward[number(graph, "layer3.2.conv2")], found.forward[number(graph, "layer4.2.conv2")]);
}

TEST(MeasureLayers, IsAskedForWhereTheCutFollowsTime) {
  const auto asked = [](const std::string& strategy, int workers = 2) {
    Job job;
    job.strategy = parse_spec(strategy);
    job.workers.assign(static_cast<std::size_t>(workers), {});
    return cuts_by_time(job);
  };
  for (const auto* form :
       {"pipeline", "model", "pipeline[balance=time]", "pipeline[balance=pipedream]", "pipeline[replicas=2/1]", "hybrid[pipeline=2]"}) EXPECT_TRUE(asked(form)) << form;
  for (const auto* form :
       {"data", "single", "pipeline[stages=3/5]", "pipeline[balance=flops]", "model[balance=memory]", "pipeline[balance=count]",
        "hybrid[sharded=2]", "hybrid[pipeline=2,tensor=2]", "hybrid[pipeline=2,stages=6/6]"})
    EXPECT_FALSE(asked(form)) << form;
  EXPECT_FALSE(asked("pipeline", 1));
}

// What was measured, wherever it came from, decides where the network is cut: the same on whoever makes the plan.
TEST(MeasureLayers, PlansFollowWhatTheJobWasMeasuredWith) {
  Job job;
  job.strategy = parse_spec("pipeline[micro=4]");
  job.workers.assign(2, {});
  const auto graph = builtin_models().at("lenet").make({"lenet", {}}, kImages);
  const int last = static_cast<int>(graph.layers.size());
  for (int slow = 1; slow < last; ++slow) {
    job.forward_seconds.assign(graph.layers.size(), 1e-6);
    job.backward_seconds.assign(graph.layers.size(), 1e-6);
    job.forward_seconds[static_cast<std::size_t>(slow)] = 1;
    const auto plan = plan_job(job, graph);
    // The slow one has a stage with as few others as there can be: nothing before it, or nothing behind.
    const int cut = plan.stages[1].first;
    EXPECT_TRUE(cut == slow || cut == slow + 1) << slow << " " << cut;
  }
  job.backward_seconds.clear();
  EXPECT_THROW(plan_job(job, graph), Error);
}

}  // namespace
}  // namespace ddl
