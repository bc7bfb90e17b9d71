#include "ddl/lab/import_chakra.h"

#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/data/dataset.h"
#include "ddl/lab/chakra_names.h"
#include "ddl/lab/predict_job.h"
#include "ddl/nn/model.h"
#include "ddl/predict/machine.h"
#include "ddl/strategy/partition/crossing.h"
#include "ddl/strategy/partition/layer_sort.h"

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

// Chakra's text converter has backward in two.
TEST(ImportChakra, NodesAsTheTextConverterNamesThem) {
  const auto graph = make_model({"lenet", {}}, dataset_shape("fashion-mnist", true));
  ChakraTrace trace{"0.0.4"};
  double forward = 0, input = 0, weight = 0;
  const auto learns = learning_layers(graph);
  for (std::size_t l = 0; l < graph.layers.size(); ++l) {
    const auto& layer = graph.layers[l];
    if (layer.kind == LayerKind::input) continue;
    const auto work = layer_work(graph, l, learns);
    trace.nodes.push_back(node("COMP_NODE_" + layer.name + "_FWD", 0.001));
    trace.nodes.push_back(node("COMP_NODE_" + layer.name + "_IG", 0.003));
    trace.nodes.push_back(node("COMP_NODE_" + layer.name + "_BWD_WG", 0.005));
    forward += 0.001;
    input += work.learning_input ? 0.003 : 0;
    weight += work.trains ? 0.005 : 0;
  }
  const auto document = import_chakra({trace}, lenet("8"));
  EXPECT_NEAR(summed(document, {"forward_us"}), forward, 1e-7);
  EXPECT_NEAR(summed(document, {"backward_input_us"}), input, 1e-7);
  EXPECT_NEAR(summed(document, {"backward_weight_us"}), weight, 1e-7);
  EXPECT_EQ(document["left_out"], 0);
}

/// LeNet's step as PyTorch's operators, the outer with the inner: a convolution takes i ms, a linear layer 10 i, all else 0.1.
std::vector<ChakraNode> lenet_operators() {
  std::vector<ChakraNode> nodes;
  const auto add = [&](const std::string& name, double ms) { nodes.push_back(node(name, ms * 1e-3)); };
  const auto graph = make_model({"lenet", {}}, dataset_shape("fashion-mnist", true));
  int convolutions = 0, linears = 0;
  std::vector<std::pair<std::string, double>> back;
  for (const auto& layer : graph.layers) {
    const auto names = operators_of(layer.kind);
    if (layer.kind == LayerKind::input || names.forward.empty()) continue;
    const double ms = layer.kind == LayerKind::conv2d ? ++convolutions : layer.kind == LayerKind::linear ? 10 * ++linears : 0.1;
    add(names.forward.front(), ms);
    if (layer.kind == LayerKind::conv2d) add("aten::convolution", 0.9 * ms);
    back.emplace_back(names.backward.front(), 2 * ms);
  }
  add("aten::cross_entropy_loss", 0.2);
  for (auto each = back.rbegin(); each != back.rend(); ++each) add(each->first, each->second);
  return nodes;
}

// The n-th operator of a sort is the n-th layer of that sort, in each step; of nested ones the outermost counts.
TEST(ImportChakra, NodesThatNameOperators) {
  ChakraTrace trace{"0.0.4", {}, lenet_operators()};
  const auto once = import_chakra({trace}, lenet("8"));
  const auto more = lenet_operators();
  trace.nodes.insert(trace.nodes.end(), more.begin(), more.end());
  ChakraNode moved{0, "all_reduce", kChakraCollective, 2e-3};
  moved.attributes.numbers = {{"comm_type", 0}, {"comm_size", 4096}};
  trace.nodes.push_back(moved);
  moved.attributes.numbers.erase("comm_size");
  trace.nodes.push_back(moved);
  const auto twice = import_chakra({trace}, lenet("8"));
  for (const auto& document : {once, twice}) {
    const auto& entry = document["compute"][0];
    double convolutions = 0, linears = 0, all = 0;
    for (const auto& row : entry["layers"]) {
      const double forward = row["count"].get<double>() * row["forward_us"].get<double>() / 1e3;
      const double backward = row["count"].get<double>() * ((row["backward_input_us"].is_null() ? 0 : row["backward_input_us"].get<double>()) + (row["backward_weight_us"].is_null() ? 0 : row["backward_weight_us"].get<double>())) / 1e3;
      const auto family = row["family"].get<std::string>();
      if (family.starts_with("conv2d")) convolutions += forward;
      if (family.starts_with("linear")) linears += forward;
      if (family.starts_with("linear")) {
        EXPECT_NEAR(backward, 2 * forward, 1e-3) << row;
      }
      all += forward;
    }
    EXPECT_NEAR(convolutions, 1 + 2, 1e-3);
    EXPECT_NEAR(linears, 10 + 20 + 30, 1e-3);
    EXPECT_GT(all, 63.2);
    EXPECT_LT(all, 65);
  }
  EXPECT_EQ(once["left_out"], 2) << "what is within the convolutions";
  EXPECT_EQ(twice["left_out"], 5) << "twice, and a collective that does not say of how many bytes";
  ASSERT_EQ(twice["collectives"].size(), 1u);
  EXPECT_EQ(twice["collectives"][0]["collective"], "all-reduce");
  EXPECT_EQ(twice["collectives"][0]["bytes"], 4096);
  EXPECT_NEAR(twice["collectives"][0]["mean_us"].get<double>(), 2000, 1e-6);
}

TEST(ImportChakra, OperatorsThatDoNotMatchTheNetworkSayWhatLacks) {
  auto nodes = lenet_operators();
  std::erase_if(nodes, [](const ChakraNode& each) { return each.name == "aten::linear"; });
  try {
    import_chakra({ChakraTrace{"0.0.4", {}, nodes}}, lenet("8"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("got none, expected 3 of aten::linear or aten::addmm"), std::string::npos) << error.what();
  }
  nodes = lenet_operators();
  nodes.push_back(node("aten::linear", 1));
  try {
    import_chakra({ChakraTrace{"0.0.4", {}, nodes}}, lenet("8"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("got 4 aten::linear, expected 3"), std::string::npos) << error.what();
  }
}

TEST(ImportChakra, RefusesWhatIsNoSumOfWholeLayers) {
  auto settings = lenet("32");
  set(settings, "recompute", "true", "test");
  EXPECT_THROW(import_chakra({ours(settings, {node("forward", 1, "forward")})}, {}), Error);
  EXPECT_THROW(import_chakra({}, {}), Error);
}

}  // namespace
}  // namespace ddl
