#include "ddl/lab/import_chakra.h"

#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/data/dataset.h"
#include "ddl/lab/predict_job.h"
#include "ddl/nn/model.h"
#include "ddl/predict/machine.h"

namespace ddl {
namespace {

Settings lenet(const std::string& batch) {
  Settings settings;
  set(settings, "model", "lenet", "test");
  set(settings, "batch", batch, "test");
  set(settings, "synthetic", "true", "test");
  return settings;
}

ChakraNode node(const std::string& name, double seconds, const std::string& kind = "", int stage = 0) {
  ChakraNode made{0, name, kChakraCompute, seconds};
  if (!kind.empty()) made.attributes = {{{"stage", stage}, {"micro_batch", 0}}, {{"kind", kind}}};
  return made;
}

ChakraTrace ours(Settings settings, std::vector<ChakraNode> nodes) {
  ChakraTrace trace{"0.0.4", {}, std::move(nodes)};
  trace.about.words["config"] = resolve(settings).config.dump();
  trace.about.words["cpu"] = "a processor";
  trace.about.numbers["usable_cores"] = 4;
  trace.about.numbers["harness_ns"] = 20'000;
  return trace;
}

double summed(const Json& document, std::initializer_list<const char*> parts) {
  double sum = 0;
  for (const auto& row : document["compute"][0]["layers"])
    for (const auto* part : parts)
      if (row[part].is_number()) sum += row["count"].get<double>() * row[part].get<double>() * 1e-6;
  return sum;
}

// Forward was cut in two where something was sent beside it.
TEST(ImportChakra, AStageIsTheSumOfItsLayers) {
  const auto document = import_chakra({ours(lenet("32"), {node("forward", 0.003, "forward"), node("forward", 0.001, "forward"), node("backward", 0.010, "backward"), node("update 0", 0.0005, "update")})}, {});
  EXPECT_NEAR(summed(document, {"forward_us"}), 0.004, 1e-7);
  EXPECT_NEAR(summed(document, {"backward_input_us", "backward_weight_us"}), 0.010, 1e-7);
  const auto& entry = document["compute"][0];
  EXPECT_EQ(entry["network"], "lenet");
  EXPECT_EQ(entry["batch"], 32);
  EXPECT_EQ(document["left_out"], 0);
  EXPECT_NEAR(document["optimizer"][0]["update_us"].get<double>(), 500, 1e-3);
  EXPECT_NEAR(document["launch"][0]["harness_us"].get<double>(), 20, 1e-3);
  EXPECT_EQ(document["environment"]["cpu"]["usable_cores"], 4);
}

// One step may be any: the trace says what the mean one took.
TEST(ImportChakra, TheMeanStepCounts) {
  auto trace = ours(lenet("32"), {node("forward", 0.003, "forward"), node("backward", 0.010, "backward")});
  trace.about.numbers["forward_ns"] = 2'000'000;
  trace.about.numbers["backward_ns"] = 5'000'000;
  const auto document = import_chakra({trace}, {});
  EXPECT_NEAR(summed(document, {"forward_us"}), 0.002, 1e-7);
  EXPECT_NEAR(summed(document, {"backward_input_us", "backward_weight_us"}), 0.005, 1e-7);
}

// What is predicted from it of the same step is what was traced.
TEST(ImportChakra, PredictsTheStepThatWasTraced) {
  const auto settings = lenet("32");
  const auto document = import_chakra({ours(settings, {node("forward", 0.004, "forward"), node("backward", 0.010, "backward"), node("update", 0.0005, "update")})}, {});
  auto machine = new_machine(document["environment"]);
  for (const auto* part : {"compute", "optimizer", "launch"}) machine[part] = document[part];
  const auto job = resolve(settings).job;
  const auto found = predict_job(job, make_model(job.model, dataset_shape(job.dataset, true)), machine);
  EXPECT_NEAR(found.step.mean[Cause::forward], 0.004, 1e-5);
  EXPECT_NEAR(found.step.mean[Cause::backward], 0.010, 1e-5);
  EXPECT_NEAR(found.step.seconds, 0.004 + 0.010 + 0.0005 + 20e-6, 1e-4);
}

// Two workers, each of whom has half of the samples; what both took, on the mean.
TEST(ImportChakra, RanksAreAveraged) {
  auto settings = lenet("32");
  set(settings, "workers", "2", "test");
  const auto document = import_chakra({ours(settings, {node("forward", 0.002, "forward"), node("backward", 0.005, "backward")}), ours(settings, {node("forward", 0.004, "forward"), node("backward", 0.005, "backward")})}, {});
  EXPECT_EQ(document["compute"][0]["batch"], 16);
  EXPECT_NEAR(summed(document, {"forward_us"}), 0.003, 1e-7);
}

TEST(ImportChakra, StagesOfAllRanksMakeTheNetwork) {
  auto settings = lenet("32");
  set(settings, "workers", "2", "test");
  set(settings, "strategy", "pipeline[micro=2]", "test");
  const auto graph = make_model({"lenet", {}}, dataset_shape("fashion-mnist", true));
  const auto layers = std::count_if(graph.layers.begin(), graph.layers.end(), [](const Layer& layer) { return layer.kind != LayerKind::input; });
  auto first = ours(settings, {node("forward 0 0", 0.003, "forward", 0), node("backward 0 0", 0.004, "backward", 0)});
  first.about.words["stages"] = fmt::format("3/{}", layers - 3);
  const auto second = ours(settings, {node("forward 1 0", 0.001, "forward", 1), node("backward 1 0", 0.002, "backward", 1)});
  const auto document = import_chakra({first, second}, {});
  EXPECT_EQ(document["compute"][0]["batch"], 16);
  EXPECT_NEAR(summed(document, {"forward_us"}), 0.004, 1e-7);
  EXPECT_NEAR(summed(document, {"backward_input_us", "backward_weight_us"}), 0.006, 1e-7);
  try {
    import_chakra({first}, {});
    FAIL() << "half of the network";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("stage 1"), std::string::npos) << error.what();
  }
}

// Other people's traces name layers.
TEST(ImportChakra, NodesThatNameLayers) {
  const auto graph = make_model({"lenet", {}}, dataset_shape("fashion-mnist", true));
  ChakraTrace trace{"0.0.4"};
  double all = 0;
  for (const auto& layer : graph.layers) {
    if (layer.kind == LayerKind::input) continue;
    all += 0.001;
    trace.nodes.push_back(node(layer.name + " forward", 0.001));
    trace.nodes.push_back(node(layer.name + " backward", 0.002));
  }
  trace.nodes.push_back(node("aten::something", 0.5));
  const auto document = import_chakra({trace}, lenet("8"));
  EXPECT_NEAR(summed(document, {"forward_us"}), all, 1e-7);
  EXPECT_EQ(document["left_out"], 1);
  EXPECT_TRUE(document["environment"].is_null());
  try {
    import_chakra({trace}, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("--model"), std::string::npos);
  }
  trace.nodes.erase(trace.nodes.begin());
  EXPECT_THROW(import_chakra({trace}, lenet("8")), Error) << "a layer is missing";
}

TEST(ImportChakra, RefusesWhatIsNoSumOfWholeLayers) {
  auto settings = lenet("32");
  set(settings, "recompute", "true", "test");
  EXPECT_THROW(import_chakra({ours(settings, {node("forward", 1, "forward")})}, {}), Error);
  EXPECT_THROW(import_chakra({}, {}), Error);
}

}  // namespace
}  // namespace ddl
