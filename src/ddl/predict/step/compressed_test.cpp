#include "ddl/predict/step/compressed.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ddl/core/error.h"
#include "ddl/nn/builtin.h"
#include "ddl/predict/datasheet/library.h"
#include "ddl/predict/datasheet/machine_source.h"
#include "ddl/predict/machine.h"
#include "ddl/predict/measured/measured_machine.h"
#include "ddl/predict/predict_step.h"
#include "ddl/strategy/builtin.h"

namespace ddl {
namespace {

constexpr double kOwn = 3e-9, kWire = 1e-8, kAlpha = 2e-6, kPass = 1e-3;

/// Each layer 1 ms each way; a collective 2 us and 10 ns a byte; compressing 3 ns a byte.
class MadeUp final : public CostSource {
 public:
  LayerCost layer(int, const ModelGraph& graph, std::size_t number, std::int64_t) const override {
    return graph.layers[number].kind == LayerKind::input ? LayerCost{} : LayerCost{kPass, kPass / 2, kPass / 2};
  }
  TaskCost collective(Goal, std::int64_t bytes, const std::vector<int>&, StepCosts&) const override { return {kAlpha + kWire * static_cast<double>(bytes)}; }
  TaskCost message(std::int64_t, int, int, StepCosts&) const override { return {}; }
  TaskCost compressing(int, const std::string& compression, std::int64_t bytes, int, StepCosts&) const override {
    asked = compression;
    return {kOwn * static_cast<double>(bytes)};
  }
  double update(int, std::int64_t) const override { return 0; }
  double copy(int, std::int64_t) const override { return 0; }
  LayerCost loss(int, const ModelGraph&, std::int64_t) const override { return {}; }
  double load(int, std::int64_t) const override { return 0; }
  TaskCost loader(int, std::int64_t, StepCosts&) const override { return {}; }
  TaskCost harness(int, double, StepCosts&) const override { return {}; }
  mutable std::string asked;
};

ModelGraph mlp() { return builtin_models().at("mlp").make(parse_spec("mlp[layers=4,hidden=256]"), {1, 28, 28, 10}); }

std::int64_t elements_of(const ModelGraph& graph) {
  std::int64_t sum = 0;
  for (const auto& each : graph.parameter_specs()) sum += each.elements();
  return sum;
}

StepPrediction predicted(const std::string& strategy, const CostSource& source, Engine engine, int workers = 4) {
  const auto graph = mlp();
  const auto spec = parse_spec(strategy);
  const auto plan = builtin_strategies().at(spec.name).make({graph, workers, 64, 4, spec});
  return predict_step({plan, graph, spec, 64, source, 0.1, engine, false});
}

/// The one bucket of a whole network.
CompressedBucket whole_bucket(const std::string& compression, int ranks) {
  const auto graph = mlp();
  const auto plan = builtin_strategies().at("data").make({graph, std::max(2, ranks), 64, 4, parse_spec("data[bucket=1GiB,first-bucket=1GiB]")});
  EXPECT_EQ(plan.roles[0].buckets.size(), 1u);
  return compressed_bucket(compression, plan.roles[0].buckets[0], graph.parameter_specs(), ranks);
}

// docs/compression.md has these in bytes that a rank sends; here they are whole buffers.
TEST(CompressedBucket, IsMadeOfTheCollectivesThatAreRun) {
  const auto n = elements_of(mlp());
  const auto sum = [](const CompressedBucket& bucket) {
    std::int64_t bytes = 0;
    for (const auto& each : bucket.parts) bytes += each.bytes;
    return bytes - 4;  // the vote, which goes as it is
  };
  const auto half = whole_bucket("fp16", 4);
  EXPECT_EQ(half.bytes, 4 * n);
  EXPECT_EQ(sum(half), 2 * n);
  EXPECT_EQ(half.parts.size(), 2u);
  EXPECT_EQ(half.memory, 2 * n);
  const auto k = std::llround(0.01 * static_cast<double>(n));
  const auto top = whole_bucket("top-k", 8);
  EXPECT_EQ(sum(top), 8 * k * 8);
  EXPECT_EQ(top.gathered, 6 * k * 8) << "two ranks' choices are in what was measured";
  EXPECT_EQ(top.memory, 4 * n + 8 * k * 8) << "what was not sent is kept";
  EXPECT_EQ(whole_bucket("top-k", 2).gathered, 0);
  EXPECT_EQ(sum(whole_bucket("random-k", 8)), 4 * k);
  EXPECT_EQ(whole_bucket("random-k", 8).gathered, 0);
  EXPECT_LT(sum(whole_bucket("power-sgd", 8)), 4 * n / 10);
  EXPECT_THROW(whole_bucket("none", 4), Error);
  EXPECT_THROW(whole_bucket("top", 4), Error);
}

// One bucket that nothing hides: what the form says to the nanosecond, by both engines.
TEST(CompressedStep, TakesItsOwnWorkAndItsCollectives) {
  const MadeUp source;
  const double plain = predicted("data[bucket=1GiB,first-bucket=1GiB,overlap=off]", source, Engine::simulated).seconds;
  const auto n = static_cast<double>(elements_of(mlp()));
  for (const auto* compression : {"fp16", "int8", "top-k[ratio=0.1]", "random-k", "power-sgd[rank=4]"}) {
    const auto bucket = whole_bucket(compression, 4);
    double wire = 0;
    for (const auto& part : bucket.parts) wire += kAlpha + kWire * static_cast<double>(part.bytes);
    const double expected = plain - (kAlpha + kWire * (4 * n + 4)) + kOwn * 4 * n + wire;
    for (const auto engine : {Engine::simulated, Engine::closed})
      EXPECT_NEAR(predicted(std::string("data[bucket=1GiB,first-bucket=1GiB,overlap=off,compress=") + compression + "]", source, engine).seconds, expected, 1e-8) << compression;
    EXPECT_EQ(source.asked, compression);
  }
}

// With buckets that go while backward runs both engines agree as they do without.
TEST(CompressedStep, BothEnginesAgreeWithOverlap) {
  for (const auto* compression : {"fp16", "int8", "top-k", "random-k[ratio=0.1]", "power-sgd"}) {
    const auto strategy = std::string("data[bucket=200KiB,first-bucket=50KiB,compress=") + compression + "]";
    const MadeUp source;
    const double simulated = predicted(strategy, source, Engine::simulated).seconds;
    EXPECT_NEAR(predicted(strategy, source, Engine::closed).seconds / simulated, 1, 0.02) << compression;
    const auto sheet = datasheet_source(find_machine("k80"), "fp32", 1, 1);
    EXPECT_NEAR(predicted(strategy, *sheet, Engine::closed).seconds / predicted(strategy, *sheet, Engine::simulated).seconds, 1, 0.02) << compression;
  }
}

TEST(CompressedStep, OneWorkerCompressesNothing) {
  const MadeUp source;
  EXPECT_DOUBLE_EQ(predicted("data[compress=int8]", source, Engine::simulated, 1).seconds, predicted("data", source, Engine::simulated, 1).seconds);
}

// What is kept between steps is held beside all else.
TEST(CompressedStep, HoldsWhatItKeeps) {
  const MadeUp source;
  const auto n = elements_of(mlp());
  const auto bytes = [&](const char* strategy) { return predicted(strategy, source, Engine::closed).most.total(); };
  EXPECT_EQ(bytes("data[bucket=1GiB,first-bucket=1GiB,compress=fp16]") - bytes("data[bucket=1GiB,first-bucket=1GiB]"), 2 * 4 * n + 2 * n);
}

Json profile(const std::vector<Json>& compressions) {
  auto machine = new_machine({{"host", "here"}, {"cpu", {{"model", "Fast 3000"}, {"usable_cores", 4}}}});
  for (const auto& each : compressions) add_entry(machine, "compression", {"device", "compression", "ranks", "bytes"}, each);
  return machine;
}

/// Of a machine of which only that was measured: nobody on it computes.
MeasuredMachine measured(const Json& machine) { return {machine, {.workers = {{1, 0, false}, {1, 0, false}}}}; }

TEST(MeasuredCompression, LiesBetweenSizesAndTakesACore) {
  const auto entry = [](const char* compression, int ranks, std::int64_t bytes, double us) { return Json{{"device", "cpu"}, {"compression", compression}, {"ranks", ranks}, {"bytes", bytes}, {"own_us", us}}; };
  const auto machine = measured(profile({entry("int8", 2, 1'000, 10), entry("int8", 2, 3'000, 30), entry("int8", 8, 1'000, 100), entry("top-k[ratio=0.1]", 2, 1'000, 50)}));
  StepCosts resources;
  const auto cost = machine.compressing(0, "int8", 2'000, 2, resources);
  EXPECT_NEAR(cost.seconds, 20e-6, 1e-12);
  ASSERT_EQ(cost.demands.size(), 1u);
  EXPECT_DOUBLE_EQ(cost.demands[0].share, 0.25);
  EXPECT_EQ(resources.resources.at(0), "cores of host 0");
  EXPECT_NEAR(machine.compressing(0, "int8", 1'000, 16, resources).seconds, 100e-6, 1e-12) << "of the number of ranks that is nearest";
  EXPECT_EQ(machine.compressing(0, "int8", 0, 2, resources).seconds, 0);
  try {
    machine.compressing(0, "top-k", 1'000, 2, resources);
    FAIL() << "measured with another ratio";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::not_found);
    EXPECT_NE(std::string(error.what()).find("run ddlbench probe compute --compression top-k"), std::string::npos) << error.what();
  }
}

// Half of the bytes pays where wires are slow, and not where they are fast.
TEST(DatasheetCompression, PaysOnSlowWires) {
  auto slow = find_machine("v100-16gb");
  slow["node"]["network_bandwidth_per_device"] = 1.25e8;
  const auto seconds = [](const Json& machine, const char* strategy, int per_node) { return predicted(strategy, *datasheet_source(machine, "fp32", 1, per_node), Engine::simulated).seconds; };
  EXPECT_LT(seconds(slow, "data[compress=fp16]", 1), seconds(slow, "data", 1));
  EXPECT_GT(seconds(find_machine("v100-16gb"), "data[compress=top-k]", 8), seconds(find_machine("v100-16gb"), "data", 8));
}

}  // namespace
}  // namespace ddl
