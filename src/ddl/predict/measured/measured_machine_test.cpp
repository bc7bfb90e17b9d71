#include "ddl/predict/measured/measured_machine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <list>
#include <numeric>

#include "ddl/core/error.h"
#include "ddl/nn/builtin.h"
#include "ddl/predict/machine.h"
#include "ddl/predict/measured/curve.h"
#include "ddl/predict/measured/history.h"
#include "ddl/predict/step/simulate_step.h"
#include "ddl/strategy/builtin.h"
#include "ddl/strategy/partition/crossing.h"

namespace ddl {
namespace {

const Json kEnvironment{{"host", "here"}, {"cpu", {{"model", "Fast 3000"}, {"usable_cores", 2}}}};
/// How far the machine may have gone since, where nothing was measured twice.
constexpr double kOnce = 0.12;
constexpr double kFlop = 1e-10, kElement = 1e-9, kLaunch = 1e-6;

ModelGraph make_model(const std::string& text, const SampleShape& shape = {1, 28, 28, 10}) {
  const auto spec = parse_spec(text);
  return builtin_models().at(spec.name).make(spec, shape);
}

/// Seconds of a made-up machine, forward; each part of backward takes as long.
double seconds_of(const LayerWork& work, double samples) { return kLaunch + samples * (work.flops * kFlop + work.elements * kElement); }

/// As `probe compute` writes it, of that machine.
Json entry_of(const std::string& model, std::int64_t batch, double correction = 1) {
  const auto graph = make_model(model);
  const auto learns = learning_layers(graph);
  std::map<std::string, Json> rows;
  const auto add = [&](const std::string& sort, const std::string& family, const LayerWork& work) {
    const double us = seconds_of(work, static_cast<double>(batch)) * 1e6;
    auto [place, fresh] = rows.try_emplace(sort, Json{{"sort", sort}, {"family", family}, {"count", 0}, {"forward_us", us}, {"backward_input_us", work.learning_input ? Json(us) : Json()},
                                                      {"backward_weight_us", work.trains ? Json(us) : Json()}, {"spread", 0.01}, {"flops", work.flops}, {"elements", work.elements},
                                                      {"parameters", work.parameters}});
    place->second["count"] = place->second["count"].get<int>() + 1;
  };
  for (std::size_t l = 0; l < graph.layers.size(); ++l)
    if (graph.layers[l].kind != LayerKind::input) add(layer_sort(graph, l, learns), layer_family(graph, l), layer_work(graph, l, learns));
  add(loss_sort(graph), "loss", loss_work(graph));
  Json layers = Json::array();
  for (const auto& [sort, row] : rows) layers.push_back(row);
  return {{"device", "cpu"}, {"threads", 1}, {"precision", "fp32"}, {"kernels", "fast"}, {"network", model}, {"dataset", "mnist"}, {"batch", batch}, {"loader_us", 10.0 * static_cast<double>(batch)},
          {"correction", correction}, {"step", {{"load_ms", 0.01}, {"copy_ms", 0.01}}}, {"layers", layers}};
}

Json profile_of(const std::vector<Json>& computes) {
  auto profile = new_machine(kEnvironment);
  for (const auto& entry : computes) add_entry(profile, "compute", {"network", "batch"}, entry);
  for (const std::int64_t bytes : {1 << 20, 4 << 20})
    add_entry(profile, "optimizer", {"optimizer", "bytes"}, {{"threads", 1}, {"optimizer", "sgd"}, {"bytes", bytes}, {"update_us", static_cast<double>(bytes) * 1e-3}});
  add_entry(profile, "memory", {"what", "bytes"}, {{"what", "copy"}, {"bytes", 1 << 20}, {"bytes_per_s", 1e10}});
  add_entry(profile, "launch", {"device"}, {{"device", "cpu"}, {"harness_us", 5}});
  CommunicationPart part{"shm", 2};
  part.rounds.pieces = {{0, ~std::size_t{0}, {1e-6, 0, 1e-9}}};
  part.one_shot.pieces = {{0, ~std::size_t{0}, {1e-6, 0, 1e-9}}};
  part.best = Json::array();
  add(profile, part);
  return profile;
}

/// Memory of the heap over shm: rounds that take four times as long a byte.
CommunicationPart outside_part() {
  CommunicationPart part{"shm", 2};
  part.memory = "outside";
  part.rounds.pieces = {{0, ~std::size_t{0}, {1e-6, 0, 4e-9}}};
  part.best = Json::array();
  return part;
}

std::string missing(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::not_found) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was missing";
  return "";
}

std::size_t number(const ModelGraph& graph, const std::string& name) {
  const auto found = std::find_if(graph.layers.begin(), graph.layers.end(), [&](const Layer& layer) { return layer.name == name; });
  return static_cast<std::size_t>(found - graph.layers.begin());
}

TEST(Curve, GoesStraightBetweenNeighboursAndNeverBelowProportion) {
  const std::vector<CurvePoint> points{{1, 10}, {8, 24}, {32, 72}};
  EXPECT_DOUBLE_EQ(along(points, 8).value, 24);
  EXPECT_DOUBLE_EQ(along(points, 20).value, 48);
  EXPECT_EQ(along(points, 20).beyond, 0);
  EXPECT_DOUBLE_EQ(along(points, 64).value, 136);
  EXPECT_DOUBLE_EQ(along(points, 64).beyond, 1);
  EXPECT_DOUBLE_EQ(along(points, 0.5).value, 9);
  EXPECT_DOUBLE_EQ(along(points, 0.5).beyond, 1);
  // Noise: the larger took less.
  EXPECT_DOUBLE_EQ(along({{8, 24}, {16, 20}}, 1024).value, 20);
  EXPECT_DOUBLE_EQ(along({{8, 2}, {16, 40}}, 4).value, 1);
  EXPECT_DOUBLE_EQ(along({{8, 24}}, 2).value, 6);
}

TEST(MeasuredMachine, GivesWhatWasMeasuredAndLiesBetweenBatches) {
  const MeasuredMachine machine(profile_of({entry_of("lenet", 8), entry_of("lenet", 32)}), {.network = "lenet"});
  const auto graph = make_model("lenet");
  const auto learns = learning_layers(graph);
  for (const std::int64_t samples : {8, 20, 32})
    for (std::size_t l = 1; l < graph.layers.size(); ++l) {
      const auto work = layer_work(graph, l, learns);
      const auto cost = machine.layer(0, graph, l, samples);
      const double expected = seconds_of(work, static_cast<double>(samples));
      EXPECT_NEAR(cost.forward, expected, 1e-9 * expected) << graph.layers[l].name;
      EXPECT_NEAR(cost.backward_input, work.learning_input ? expected : 0, 1e-9 * expected);
      EXPECT_NEAR(cost.backward_weight, work.trains ? expected : 0, 1e-9 * expected);
      EXPECT_FALSE(machine.estimate(0, graph, l, samples).extrapolated);
    }
  EXPECT_NEAR(machine.uncertainty(0, graph, 8), std::hypot(0.01, kOnce), 1e-12);
  EXPECT_EQ(machine.layer(0, graph, 0, 8).forward, 0) << "an input";
  EXPECT_EQ(machine.layer(0, graph, 1, 0).forward, 0) << "no samples";
}

// Measured three times, the last of them while the machine was twice as slow.
TEST(MeasuredMachine, CostsAreThoseOfTheUsualMeasurement) {
  auto now = entry_of("lenet", 8);
  Json earlier;
  for (const double ms : {2.1, 2.0, 4.0}) {
    now["pass_ms"] = ms;
    remember(now, earlier, "pass_ms", "same");
    earlier = now;
  }
  const auto graph = make_model("lenet");
  MeasuredMachine once(profile_of({entry_of("lenet", 8)}), {.network = "lenet"}), often(profile_of({now}), {.network = "lenet"});
  EXPECT_NEAR(often.layer(0, graph, 1, 8).forward, once.layer(0, graph, 1, 8).forward * 2.1 / 4, 1e-15);
  EXPECT_NEAR(often.loss(0, graph, 8).backward(), once.loss(0, graph, 8).backward() * 2.1 / 4, 1e-15);
  Drift drift;
  drift.add(now, "pass_ms");
  EXPECT_GT(drift.sigma(), 0.3);
  EXPECT_NEAR(often.uncertainty(0, graph, 8), std::hypot(0.01, drift.ahead()), 1e-12) << "what was found takes the place of what is judged";
}

// What two workers take from each other was found to be now more, now less.
TEST(MeasuredMachine, SeveralWorkersAreLessCertainWhereTheirContentionDrifts) {
  auto profile = profile_of({entry_of("lenet", 8)});
  Json earlier, now{{"what", "steps"}, {"threads", 1}, {"precision", "fp32"}, {"kernels", "fast"}, {"network", "lenet"}, {"workers", 2}};
  for (const double slowdown : {1.0, 1.1, 1.2}) {
    now["slowdown"] = slowdown;
    remember(now, earlier, "slowdown", "same");
    earlier = now;
  }
  add_entry(profile, "contention", {"what", "workers"}, now);
  const auto graph = make_model("lenet");
  const auto of = [&](std::size_t workers, const std::string& network = "lenet") { return MeasuredMachine(profile, {.workers = std::vector<MeasuredWorker>(workers), .network = network}).uncertainty(0, graph, 8); };
  Drift drift;
  drift.add(now, "slowdown");
  EXPECT_GT(drift.ahead(), 0.08);
  EXPECT_NEAR(of(2), std::hypot(of(1), drift.ahead()), 1e-12);
  EXPECT_EQ(of(2, "mlp"), of(1, "mlp")) << "of another network";
}

TEST(MeasuredMachine, WhatLiesBeyondIsFlaggedAndLessCertain) {
  const MeasuredMachine machine(profile_of({entry_of("lenet", 8), entry_of("lenet", 32)}), {.network = "lenet"});
  const auto graph = make_model("lenet");
  double before = machine.estimate(0, graph, 1, 32).uncertainty;
  for (const std::int64_t samples : {33, 64, 128, 1024}) {
    const auto found = machine.estimate(0, graph, 1, samples);
    EXPECT_TRUE(found.extrapolated);
    EXPECT_FALSE(found.fitted);
    EXPECT_GT(found.uncertainty, before);
    before = found.uncertainty;
    EXPECT_NEAR(found.cost.forward, seconds_of(layer_work(graph, 1, learning_layers(graph)), static_cast<double>(samples)), 1e-12);
  }
  EXPECT_TRUE(machine.estimate(0, graph, 1, 1).extrapolated);
}

// The made-up machine's times are of the form that is fitted.
TEST(MeasuredMachine, PricesASortThatItDoesNotKnowByItsFamily) {
  std::vector<Json> computes;
  for (const char* model : {"mlp[hidden=64,layers=3]", "mlp[hidden=96,layers=3]", "mlp[hidden=32,layers=1]"})
    for (const std::int64_t batch : {8, 32}) computes.push_back(entry_of(model, batch));
  const MeasuredMachine machine(profile_of(computes), {.network = "mlp"});
  const auto graph = make_model("mlp[hidden=80,layers=4]");
  for (std::size_t l = 1; l < graph.layers.size(); ++l) {
    const auto found = machine.estimate(0, graph, l, 16);
    const double expected = seconds_of(layer_work(graph, l, learning_layers(graph)), 16);
    EXPECT_NEAR(found.cost.forward, expected, 0.02 * expected) << graph.layers[l].name;
    EXPECT_TRUE(found.fitted || graph.layers[l].kind == LayerKind::flatten) << graph.layers[l].name;
    EXPECT_LT(found.uncertainty, 0.1);
  }
}

// Layers of one family do not go by one rate: some have a faster way. Half of one goes as the whole does, and is known about as well.
TEST(MeasuredMachine, WhatLiesNextToOneThatWasMeasuredTakesAfterIt) {
  std::vector<Json> entries;
  const std::string model = "mlp[hidden=64,layers=4]";
  const auto whole = make_model(model);
  const auto learns = learning_layers(whole);
  std::string slow;
  for (std::size_t l = 1; l < whole.layers.size() && slow.empty(); ++l)
    if (whole.layers[l].kind == LayerKind::linear && learns[static_cast<std::size_t>(whole.layers[l].inputs.front())]) slow = layer_sort(whole, l, learns);
  ASSERT_FALSE(slow.empty());
  for (const std::int64_t batch : {8, 32}) {
    auto& entry = entries.emplace_back(entry_of(model, batch));
    for (auto& row : entry["layers"])
      if (row["sort"] == slow)
        for (const char* part : {"forward_us", "backward_input_us", "backward_weight_us"}) row[part] = 3 * row[part].get<double>();
  }
  const MeasuredMachine machine(profile_of(entries), {.network = "lenet"});
  std::list<ModelGraph> kept;  // a machine knows networks by where they lie
  const auto of = [&](const std::string& name) {
    const auto& graph = kept.emplace_back(make_model(name));
    std::size_t hidden = 0;
    for (std::size_t l = 1; l < graph.layers.size() && hidden == 0; ++l)
      if (graph.layers[l].kind == LayerKind::linear && learning_layers(graph)[static_cast<std::size_t>(graph.layers[l].inputs.front())]) hidden = l;
    const auto found = machine.estimate(0, graph, hidden, 16);
    EXPECT_TRUE(found.fitted);
    return std::pair{found.cost.forward / seconds_of(layer_work(graph, hidden, learning_layers(graph)), 16), found.uncertainty};
  };
  const auto [near, sure] = of("mlp[hidden=56,layers=4]");
  const auto [far, unsure] = of("mlp[hidden=512,layers=4]");
  EXPECT_NEAR(near, 3, 0.6) << "as the one next to it";
  EXPECT_LT(far, near);
  EXPECT_LT(sure, unsure / 2);
}

// Of 13 samples and more convolutions of 512 channels over 4x4 go by tiles: what those take says nothing of fewer.
TEST(MeasuredMachine, ConvolutionsOfFewSamplesAreComputedAnotherWayThanOfMany) {
  const auto graph = make_model("resnet18");
  const auto learns = learning_layers(graph);
  std::size_t wide = 0;
  for (std::size_t l = 1; l < graph.layers.size(); ++l)
    if (graph.layers[l].kind == LayerKind::conv2d && graph.layers[l].shape == std::vector<std::int64_t>{512, 4, 4} && graph.layers[l].attributes.kernel.height == 3 && graph.layers[l].attributes.stride.height == 1) wide = l;
  ASSERT_GT(wide, 0U);
  std::vector<Json> entries;
  for (const std::int64_t batch : {1, 4, 16}) {
    auto& entry = entries.emplace_back(entry_of("resnet18", batch));
    for (auto& row : entry["layers"])
      if (batch == 16 && row["sort"] == layer_sort(graph, wide, learns)) row["forward_us"] = 0.1 * row["forward_us"].get<double>();
  }
  const auto seconds = [&](std::int64_t samples, const std::string& kernels = "fast") {
    for (auto& entry : entries) entry["kernels"] = kernels;
    return MeasuredMachine(profile_of(entries), {.network = "resnet18", .kernels = kernels}).layer(0, graph, wide, samples).forward;
  };
  const auto product = [&](double samples) { return seconds_of(layer_work(graph, wide, learns), samples); };
  EXPECT_NEAR(seconds(8), product(8), 1e-6 * product(8));
  EXPECT_NEAR(seconds(12), product(12), 1e-6 * product(12));
  EXPECT_NEAR(seconds(13), 13.0 / 16 * 0.1 * product(16), 1e-6 * product(16)) << "as 16, the only one of its way";
  EXPECT_LT(seconds(8, "torch"), 0.8 * product(8)) << "other kernels have no such ways";
}

// Adding a bias is no layer of a whole network, and so was not measured in any: a value is read, a value is made.
TEST(MeasuredMachine, PricesPointwiseFamiliesThatItDoesNotKnowByTheirBytes) {
  const MeasuredMachine machine(profile_of({entry_of("mlp", 8)}), {.network = "smallcnn"});
  const auto graph = make_model("smallcnn");
  const auto learns = learning_layers(graph);
  for (std::size_t l = 1; l < graph.layers.size(); ++l) {
    if (graph.layers[l].kind != LayerKind::max_pool2d) continue;
    const auto found = machine.estimate(0, graph, l, 64);
    const auto work = layer_work(graph, l, learns);
    EXPECT_NEAR(found.cost.forward, work.elements * 64 * 2 / 1e10, 1e-9);
    EXPECT_EQ(found.cost.backward_weight, 0);
    EXPECT_TRUE(found.fitted);
    EXPECT_EQ(found.uncertainty, 0.5);
    return;
  }
  FAIL() << "no pooling";
}

TEST(MeasuredMachine, CorrectsBySumsInTraining) {
  const auto graph = make_model("lenet");
  const auto profile = profile_of({entry_of("lenet", 8, 1.1), entry_of("mlp", 8, 1.3), entry_of("mlp", 16, 1.3)});
  const double plain = seconds_of(layer_work(graph, 1, learning_layers(graph)), 8);
  // The network's own where there is one, else the median of all.
  EXPECT_NEAR(MeasuredMachine(profile, {.network = "lenet"}).layer(0, graph, 1, 8).forward, 1.1 * plain, 1e-12);
  const MeasuredMachine any(profile, {.network = "smallcnn"});
  EXPECT_NEAR(any.layer(0, graph, 1, 8).forward, 1.3 * plain, 1e-12);
  EXPECT_GT(any.uncertainty(0, graph, 8), 0.05);
}

TEST(MeasuredMachine, SaysWhatIsMissingAndWhatMeasuresIt) {
  const auto whole = profile_of({entry_of("mlp", 8)});
  const auto says = [](const std::string& text, const std::string& part) { EXPECT_NE(text.find(part), std::string::npos) << text; };
  says(missing([&] { MeasuredMachine(new_machine(kEnvironment), {.network = "resnet50"}); }), "run ddlbench probe compute --model resnet50");
  says(missing([&] { MeasuredMachine(whole, {.workers = {{4, 0}}, .network = "mlp"}); }), "--threads 4");
  says(missing([&] { MeasuredMachine(whole, {.network = "mlp", .precision = "bf16"}); }), "--precision bf16");
  const MeasuredMachine machine(whole, {.workers = {{}, {}}, .network = "lenet", .optimizer = "adam", .transport = "tcp"});
  const auto lenet = make_model("lenet");
  says(missing([&] { machine.layer(0, lenet, number(lenet, "conv1"), 8); }), "layer conv1 of lenet");
  says(missing([&] { machine.layer(0, lenet, number(lenet, "conv1"), 8); }), "run ddlbench probe compute --model lenet");
  says(missing([&] { machine.update(0, 100); }), "run ddlbench probe compute --optimizer adam");
  StepCosts costs;
  says(missing([&] { machine.collective(Goal::all_reduce, 100, {0, 1}, costs); }), "run ddlbench probe comm --transport tcp --ranks 2");
  says(missing([&] { machine.message(100, 0, 1, costs); }), "over tcp");
  auto old = new_machine(kEnvironment);
  old["compute"] = Json::array({entry_of("mlp", 8)});
  const MeasuredMachine bare(old, {.network = "mlp"});
  says(missing([&] { bare.copy(0, 100); }), "run ddlbench probe compute");
  says(missing([&] { bare.harness(0, 1, costs); }), "run ddlbench probe compute");
}

TEST(MeasuredMachine, TheNetworksOwnUpdateComesBeforeOthers) {
  auto entry = entry_of("mlp", 8);
  entry["optimizer"] = "sgd";
  entry["parameter_bytes"] = 1'000'000;
  entry["update_us"] = 2000.0;
  EXPECT_NEAR(MeasuredMachine(profile_of({entry}), {.network = "mlp"}).update(0, 500'000), 1e-3, 1e-12);
  EXPECT_NEAR(MeasuredMachine(profile_of({entry}), {.network = "lenet"}).update(0, 2 << 20), (2 << 20) * 1e-9, 1e-12);
  // One of its name that is four times as large is none of those that were measured.
  EXPECT_NEAR(MeasuredMachine(profile_of({entry}), {.network = "mlp"}).update(0, 1'500'000), 3e-3, 1e-12);
  EXPECT_NEAR(MeasuredMachine(profile_of({entry}), {.network = "mlp"}).update(0, 4 << 20), (4 << 20) * 1e-9, 1e-12);
}

// Carried on from the largest that was measured, which is told; what is a rate, or was measured of as many, is not.
TEST(MeasuredMachine, HowFarUpdatesAndLoadersAreCarriedOn) {
  auto profile = profile_of({entry_of("mlp", 8)});  // updates of 1 and 4 MiB
  const MeasuredMachine machine(profile, {.network = "mlp", .dataset = "mnist"});
  EXPECT_EQ(machine.carried(0, 3 << 20, 8, 0).update, 0);
  EXPECT_NEAR(machine.carried(0, 16 << 20, 8, 0).update, 2, 1e-12);
  EXPECT_EQ(machine.carried(0, 16 << 20, 8, 0).loader, 0);
  EXPECT_NEAR(machine.carried(0, 0, 32, 0).loader, 2, 1e-12);
  // Copies within memory, and of a GPU to the host's, from the largest of each.
  auto copies = profile;
  copies["memory"] = Json::array({{{"what", "copy"}, {"bytes", 1 << 20}, {"bytes_per_s", 1e9}}, {{"what", "copy"}, {"bytes", 25 << 20}, {"bytes_per_s", 1e9}}, {{"what", "triad"}, {"bytes", 1 << 20}, {"bytes_per_s", 1e9}, {"threads", 1}}});
  const MeasuredMachine copying(copies, {.network = "mlp", .dataset = "mnist"});
  EXPECT_EQ(copying.carried(0, 0, 8, 25 << 20).copy, 0);
  EXPECT_NEAR(copying.carried(0, 0, 8, 100 << 20).copy, 2, 1e-12);
  auto entry = entry_of("mlp", 8);
  entry["optimizer"] = "sgd";
  entry["parameter_bytes"] = 16 << 20;
  entry["update_us"] = 2000.0;
  auto own = profile_of({entry});
  add_entry(own, "loader", {"dataset"}, {{"dataset", "mnist"}, {"synthetic", true}, {"sample_us", 1}});
  const MeasuredMachine known(own, {.network = "mlp", .dataset = "mnist"});
  EXPECT_EQ(known.carried(0, 16 << 20, 512, 0).update, 0);
  EXPECT_EQ(known.carried(0, 16 << 20, 512, 0).loader, 0);
}

TEST(MeasuredMachine, WhatLayersMakeTravelsAsMemoryOfTheHeapDoesAndIsCopied) {
  auto profile = profile_of({entry_of("mlp", 8)});
  const MeasuredSetup setup{.workers = {{}, {}}, .network = "mlp"};
  constexpr std::int64_t kBytes = 1 << 20;
  StepCosts costs;
  const auto seconds = [&](bool layers) {
    const MeasuredMachine machine(profile, setup);
    return layers ? machine.exchange(Goal::all_gather, kBytes, {0, 1}, costs).seconds : machine.collective(Goal::all_gather, kBytes, {0, 1}, costs).seconds;
  };
  const double copied = 1.5 * kBytes / 1e10;
  EXPECT_NEAR(seconds(true), seconds(false) + copied, 1e-9) << "memory of the heap was not measured";
  const double message = MeasuredMachine(profile, setup).activation(kBytes, 0, 1, costs).seconds;
  EXPECT_EQ(message, MeasuredMachine(profile, setup).message(kBytes, 0, 1, costs).seconds);
  const double own = seconds(false);
  add(profile, outside_part());
  EXPECT_EQ(seconds(false), own);
  EXPECT_NEAR(seconds(true), 1e-6 + 4e-9 * kBytes / 2 + copied, 2e-6);
  EXPECT_NEAR(MeasuredMachine(profile, setup).activation(kBytes, 0, 1, costs).seconds, 1e-6 + 4e-9 * kBytes, 1e-5);
}

// Of what has left the caches, as much as the workers touch between making a buffer and exchanging it.
TEST(MeasuredMachine, LargeBuffersAreExchangedOutOfMemory) {
  constexpr std::int64_t kCache = 16 << 20;
  auto profile = profile_of({entry_of("mlp", 8)});
  const MeasuredSetup setup{.workers = {{}, {}}, .network = "mlp"};
  StepCosts costs;
  const auto seconds = [&](std::int64_t bytes, bool computes = true) {
    auto own = setup;
    for (auto& worker : own.workers) worker.computes = computes;
    return MeasuredMachine(profile, own).message(bytes, 0, 1, costs).seconds;
  };
  const double warm_small = seconds(kCache / 16), warm = seconds(kCache);
  CommunicationPart evicted{"shm", 2};
  evicted.memory = "evicted";
  evicted.rounds.pieces = {{0, ~std::size_t{0}, {1e-6, 0, 3e-9}}};
  evicted.best = Json::array();
  add(profile, evicted);
  EXPECT_EQ(seconds(kCache), warm) << "nobody knows what caches hold";
  profile["device"]["cache_bytes"] = kCache;
  // Two workers touch twice as much each: a quarter of the cache, once, and four times what it holds.
  EXPECT_EQ(seconds(kCache / 16), warm_small);
  EXPECT_NEAR(seconds(kCache), 1e-6 + 3e-9 * kCache, 1e-5);
  EXPECT_NEAR(seconds(kCache / 4), 1e-6 + 2e-9 * kCache / 4, 1e-5);
  EXPECT_EQ(seconds(kCache, false), warm) << "emulated workers touch nothing";
  // What was let go a step ago.
  const MeasuredMachine machine(profile, setup);
  const auto gathered = [&](std::int64_t held) { return machine.collective_after(Goal::all_gather, kCache / 16, held, {0, 1}, costs).seconds; };
  EXPECT_EQ(gathered(0), machine.collective(Goal::all_gather, kCache / 16, {0, 1}, costs).seconds);
  EXPECT_GT(gathered(4 * kCache), 1.4 * gathered(0));
}

// Two that pass over memory at once were measured to take 1.6 times as long.
TEST(MeasuredMachine, UpdatesOfMoreThanCachesHoldShareTheMemory) {
  auto profile = profile_of({entry_of("mlp", 8)});
  add_entry(profile, "contention", {"what", "load"}, {{"what", "workers"}, {"load", "memory"}, {"threads", 1}, {"workers", 2}, {"slowdown", 1.6}});
  const auto share = [&](std::int64_t held, std::size_t workers = 2) {
    StepCosts costs;
    const MeasuredMachine machine(profile, {.workers = std::vector<MeasuredWorker>(workers), .network = "mlp"});
    for (const auto& demand : machine.updating(0, held, costs))
      if (costs.resources.at(static_cast<std::size_t>(demand.resource)) == "memory of host 0") return demand.share;
    return 0.0;
  };
  EXPECT_EQ(share(1 << 24), 0) << "nobody knows what caches hold";
  profile["device"]["cache_bytes"] = 32 << 20;
  EXPECT_DOUBLE_EQ(share(1 << 24), 0.8);
  EXPECT_EQ(share(1 << 20), 0) << "it stays in caches";
  EXPECT_EQ(share(1 << 24, 1), 0) << "alone";
}

// What does not stay in caches all copy out of one memory.
TEST(MeasuredMachine, WhatWorkersCopyAtOnceSharesTheMemory) {
  auto profile = profile_of({entry_of("mlp", 8)});
  constexpr std::int64_t kBytes = 1 << 20;
  for (const int threads : {1, 2}) add_entry(profile, "memory", {"what", "threads"}, {{"what", "triad"}, {"threads", threads}, {"bytes", 1 << 26}, {"bytes_per_s", threads == 1 ? 3e10 : 4e10}});
  const auto seconds = [&](std::vector<MeasuredWorker> workers) {
    StepCosts costs;
    return MeasuredMachine(profile, {.workers = std::move(workers), .network = "mlp"}).exchange(Goal::all_gather, kBytes, {0, 1}, costs).seconds;
  };
  const double copied = 1.5 * kBytes / 1e10, unknown = seconds({{}, {}});
  profile["device"]["cache_bytes"] = 1 << 20;
  EXPECT_NEAR(seconds({{}, {}}), unknown + copied * (2 * 3e10 / 4e10 - 1), 1e-9);
  EXPECT_NEAR(seconds({{1, 0}, {1, 1}}), unknown, 1e-9) << "a host each";
  StepCosts costs;
  const auto exchange = MeasuredMachine(profile, {.workers = {{}, {}}, .network = "mlp"}).exchange(Goal::all_gather, kBytes, {0, 1}, costs);
  ASSERT_EQ(exchange.demands.size(), 1U);
  EXPECT_EQ(costs.resources.at(static_cast<std::size_t>(exchange.demands[0].resource)), "cores of host 0");
  // Whether they move or copy two workers have the two cores.
  EXPECT_NEAR(exchange.demands[0].share, 0.5, 1e-9);
  profile["device"]["cache_bytes"] = 8 << 20;
  EXPECT_NEAR(seconds({{}, {}}), unknown, 1e-9) << "it stays in caches";
}

// Between one and all cores each has what one had alone, until all have what all had together.
TEST(MeasuredMachine, AsManyCopiesAsWereNotMeasuredShareWhatAllCoresHave) {
  auto profile = profile_of({entry_of("mlp", 8)});
  for (const int threads : {1, 16}) add_entry(profile, "memory", {"what", "threads"}, {{"what", "triad"}, {"threads", threads}, {"bytes", 1 << 26}, {"bytes_per_s", threads == 1 ? 1e10 : 8e10}});
  constexpr std::int64_t kBytes = 1 << 20;
  const auto seconds = [&](int workers) {
    StepCosts costs;
    std::vector<int> all(static_cast<std::size_t>(workers));
    std::iota(all.begin(), all.end(), 0);
    return MeasuredMachine(profile, {.workers = std::vector<MeasuredWorker>(static_cast<std::size_t>(workers)), .network = "mlp"}).exchange(Goal::all_gather, kBytes, all, costs).seconds;
  };
  for (const auto& [workers, times] : {std::pair{2, 1.0}, {8, 1.0}, {12, 1.5}, {16, 2.0}, {32, 4.0}}) {
    profile["device"]["cache_bytes"] = 1LL << 40;
    const double in_cache = seconds(workers);
    profile["device"]["cache_bytes"] = 1 << 10;
    EXPECT_NEAR(seconds(workers) - in_cache, (1 + 1.0 / workers) * kBytes / 1e10 * (times - 1), 1e-9) << workers;
  }
}

TEST(MeasuredMachine, WhatEmulatedWorkersDoBetweenTheirWaitsIsTheirOwn) {
  auto profile = profile_of({entry_of("mlp", 8)});
  const auto seconds = [&](bool computes, double step, int workers = 1) {
    StepCosts costs;
    return MeasuredMachine(profile, {.workers = std::vector<MeasuredWorker>(static_cast<std::size_t>(workers), {1, 0, computes}), .network = "mlp"}).harness(0, step, costs).seconds;
  };
  EXPECT_DOUBLE_EQ(seconds(false, 1), 5e-6) << "an older profile";
  profile["launch"][0]["emulated_us"] = 50;
  EXPECT_DOUBLE_EQ(seconds(false, 0.014), 50e-6);
  profile["launch"][0]["emulated_step_ms"] = 20;
  EXPECT_DOUBLE_EQ(seconds(true, 1), 5e-6);
  // The longer it slept, up to as long as was measured.
  EXPECT_DOUBLE_EQ(seconds(false, 0), 5e-6);
  EXPECT_DOUBLE_EQ(seconds(false, 0.002), 9.5e-6);
  EXPECT_DOUBLE_EQ(seconds(false, 0.02), 50e-6);
  EXPECT_DOUBLE_EQ(seconds(false, 1), 50e-6);
  profile["launch"][0]["harness_us"] = nullptr;
  EXPECT_DOUBLE_EQ(seconds(false, 0.002), 50e-6) << "that of one that is awake is not known";
  profile["launch"][0]["harness_us"] = 5;
  // Two have a core each, of three one finds it as another left it.
  EXPECT_DOUBLE_EQ(seconds(false, 0.002, 2), 9.5e-6);
  EXPECT_DOUBLE_EQ(seconds(false, 0.002, 3), 50e-6);
}

TEST(MeasuredMachine, UpdatesCopiesAndCollectivesAreAsMeasured) {
  const MeasuredMachine machine(profile_of({entry_of("mlp", 8)}), {.workers = {{}, {}}, .network = "mlp"});
  EXPECT_NEAR(machine.update(0, 2 << 20), (2 << 20) * 1e-9, 1e-12);
  EXPECT_EQ(machine.update(0, 0), 0);
  EXPECT_NEAR(machine.copy(0, 1 << 20), (1 << 20) / 1e10, 1e-12);
  StepCosts costs;
  const auto harness = machine.harness(0, 1, costs);
  EXPECT_NEAR(harness.seconds, 5e-6, 1e-15);
  ASSERT_EQ(harness.demands.size(), 1U);
  EXPECT_EQ(costs.resources.at(static_cast<std::size_t>(harness.demands[0].resource)), "cores of host 0");
  EXPECT_EQ(machine.collective(Goal::all_reduce, 1 << 20, {0}, costs).seconds, 0) << "alone";
  const auto reduce = machine.collective(Goal::all_reduce, 1 << 20, {0, 1}, costs);
  EXPECT_GT(reduce.seconds, 1e-4);
  ASSERT_EQ(reduce.demands.size(), 1U);
  EXPECT_EQ(costs.resources.at(static_cast<std::size_t>(reduce.demands[0].resource)), "cores of host 0");
  EXPECT_NEAR(machine.message(1 << 20, 0, 1, costs).seconds, 1e-6 + (1 << 20) * 1e-9, 1e-6);
}

// Each time, not once: advise asks one machine of hundreds of ways.
TEST(MeasuredMachine, WiresThatNobodyMeasuredAreRefusedWhoeverAsks) {
  auto profile = profile_of({entry_of("mlp", 8)});
  profile["communication"] = Json::array();
  const MeasuredMachine machine(profile, {.workers = {{}, {}}, .network = "mlp", .transport = "tcp", .wire_bytes_per_s = 1e9, .wire_hosts = {0, 1}});
  StepCosts costs;
  for (int time = 0; time < 2; ++time) {
    EXPECT_THROW(machine.message(1 << 20, 0, 1, costs), Error) << time;
    EXPECT_THROW(machine.collective(Goal::all_reduce, 1 << 20, {0, 1}, costs), Error) << time;
  }
}

// What runs ask for: of buckets and of what layers sum the algorithm that is asked for, of parts of layers and of votes nobody's.
TEST(MeasuredMachine, AnAlgorithmThatIsAskedForIsOfWhatRunsAskItFor) {
  auto profile = profile_of({entry_of("mlp", 8)});
  CommunicationPart part{"tcp", 8};
  part.rounds.pieces = {{0, ~std::size_t{0}, {1e-5, 0, 1e-9}}};
  add(profile, part);
  const auto of = [&](const std::string& collective) { return MeasuredMachine(profile, {.workers = std::vector<MeasuredWorker>(8), .network = "mlp", .transport = "tcp", .collective = collective}); };
  const auto ring = of("ring"), own = of("auto");
  const std::vector<int> all{0, 1, 2, 3, 4, 5, 6, 7};
  StepCosts costs;
  EXPECT_GT(ring.collective(Goal::all_reduce, 1024, all, costs).seconds, 1.5 * own.collective(Goal::all_reduce, 1024, all, costs).seconds) << "fourteen rounds for three";
  EXPECT_GT(ring.exchange(Goal::all_reduce, 1024, all, costs).seconds, 1.5 * own.exchange(Goal::all_reduce, 1024, all, costs).seconds);
  EXPECT_DOUBLE_EQ(ring.exchange(Goal::all_gather, 1024, all, costs).seconds, own.exchange(Goal::all_gather, 1024, all, costs).seconds);
  EXPECT_DOUBLE_EQ(ring.numbers(Goal::all_reduce, 24, all, costs).seconds, own.numbers(Goal::all_reduce, 24, all, costs).seconds);
}

TEST(MeasuredMachine, OfTwoNumbersOfRanksThatAreAsNearTheLargerPrices) {
  EXPECT_EQ(nearest_ranks(4, {2, 8}), 8);
  EXPECT_EQ(nearest_ranks(4, {8, 2}), 8);
}

// Whose layers alone a trace tells of.
TEST(MeasuredMachine, WhatATraceDoesNotKnowIsNotTakenFromIt) {
  auto trace = entry_of("mlp", 128);
  trace["source"] = "chakra";
  trace["loader_us"] = 0;
  const auto profile = profile_of({entry_of("mlp", 8), entry_of("mlp", 32), trace});
  const auto loads = [](const Json& of, std::int64_t samples) {
    StepCosts costs;
    return MeasuredMachine(of, {.network = "mlp", .dataset = "mnist"}).loader(0, samples, costs).seconds;
  };
  EXPECT_DOUBLE_EQ(loads(profile, 256), loads(profile_of({entry_of("mlp", 8), entry_of("mlp", 32)}), 256));
  EXPECT_GT(loads(profile, 256), 1e-3);
  EXPECT_EQ(loads(profile_of({trace}), 256), 0) << "where nothing else was measured";
}

// The slower of wire and processor counts of a byte, and latency comes to each round.
TEST(MeasuredMachine, ATestNetworkSlowsRounds) {
  auto profile = profile_of({entry_of("mlp", 8)});
  CommunicationPart part{"tcp", 2};
  part.rounds.pieces = {{0, ~std::size_t{0}, {1e-6, 0, 1e-9, 1e-10}}};
  add(profile, part);
  const double bytes = 1 << 20;
  const auto message = [&](double bytes_per_s, double latency) {
    StepCosts costs;
    const MeasuredMachine machine(profile, {.workers = {{}, {}}, .network = "mlp", .transport = "tcp", .wire_bytes_per_s = bytes_per_s, .wire_latency = latency});
    return machine.message(1 << 20, 0, 1, costs).seconds;
  };
  const double plain = message(0, 0);
  EXPECT_NEAR(message(0, 1e-3), plain + 1e-3, 1e-9);
  EXPECT_NEAR(message(1e8, 2e-3), 1e-6 + 2e-3 + bytes / 1e8, 1e-9);
  EXPECT_DOUBLE_EQ(message(1e11, 0), plain);
}

// Six ranks on three hosts: neighbours have no wire between them; what goes between hosts shares theirs, each way by itself.
TEST(MeasuredMachine, HostsOfATestNetworkShareTheirWires) {
  auto profile = profile_of({entry_of("mlp", 8)});
  for (const int ranks : {2, 6}) {
    CommunicationPart part{"tcp", ranks};
    part.rounds.pieces = {{0, ~std::size_t{0}, {1e-6, 0, 1e-9, 1e-10}}};
    add(profile, part);
  }
  const double bytes = 1 << 20, rate = 1e7;
  const MeasuredMachine machine(profile, {.workers = std::vector<MeasuredWorker>(6), .network = "mlp", .transport = "tcp", .collective = "ring", .wire_bytes_per_s = rate, .wire_hosts = {0, 0, 1, 1, 2, 2}});
  StepCosts costs;
  const auto share_of = [&](const TaskCost& cost, const std::string& wire) {
    double sum = 0;
    for (const auto& demand : cost.demands) sum += demand.resource == costs.resource(wire) ? demand.share : 0;
    return sum;
  };
  EXPECT_EQ(machine.place(3), 1);
  const auto inside = machine.message(1 << 20, 0, 1, costs), between = machine.message(1 << 20, 1, 2, costs);
  EXPECT_LT(inside.seconds, 3e-3);
  EXPECT_NEAR(between.seconds, bytes / rate, 1e-4);
  // Both ends say half of it.
  EXPECT_NEAR(share_of(between, "wire out of host 0"), 0.5, 1e-2);
  EXPECT_NEAR(share_of(between, "wire into host 1"), 0.5, 1e-2);
  EXPECT_EQ(share_of(between, "wire into host 0"), 0);
  // A ring of six crosses each wire once each way, as one of three ranks on three hosts would with as large a buffer: 2 (P-1)/P of it.
  const auto ring = machine.collective(Goal::all_reduce, 1 << 20, {0, 1, 2, 3, 4, 5}, costs);
  EXPECT_NEAR(ring.seconds, 2 * 5.0 / 6 * bytes / rate, 2e-3);
  EXPECT_NEAR(6 * share_of(ring, "wire out of host 2"), 1, 2e-2);
  // Each rank sends every other of another host its part: two of them over one wire, four parts each, forth and back.
  const MeasuredMachine direct(profile, {.workers = std::vector<MeasuredWorker>(6), .network = "mlp", .transport = "tcp", .collective = "direct", .wire_bytes_per_s = rate, .wire_hosts = {0, 0, 1, 1, 2, 2}});
  EXPECT_NEAR(direct.collective(Goal::all_reduce, 1 << 20, {0, 1, 2, 3, 4, 5}, costs).seconds, 2 * 8.0 / 6 * bytes / rate, 2e-3);
}

// Cores do as much for a message over a slow wire as over a fast one, over a longer time.
TEST(MeasuredMachine, ATestNetworkTakesNoCores) {
  auto profile = profile_of({entry_of("mlp", 8)});
  CommunicationPart part{"tcp", 2};
  part.rounds.pieces = {{0, ~std::size_t{0}, {1e-6, 0, 1e-9, 1e-10}}};
  add(profile, part);
  add_entry(profile, "contention", {"what", "transport"}, {{"what", "collective"}, {"transport", "tcp"}, {"threads", 1}, {"workers", 1}, {"slowdown", 1.5}, {"collective_slowdown", 1.5}});
  const auto work = [&](double bytes_per_s, double latency) {
    StepCosts costs;
    const auto message = MeasuredMachine(profile, {.workers = {{}, {}}, .network = "mlp", .transport = "tcp", .wire_bytes_per_s = bytes_per_s, .wire_latency = latency}).message(1 << 20, 0, 1, costs);
    return message.demands.empty() ? 0 : message.seconds * message.demands[0].share;
  };
  const double plain = work(0, 0);
  EXPECT_GT(plain, 1e-4);
  EXPECT_NEAR(work(1e8, 0), plain, 1e-9);
  EXPECT_NEAR(work(0, 5e-3), plain, 1e-9);
}

// Whoever is named first.
TEST(MeasuredMachine, OfUnlikeWorkersThoseThatVaryMostCount) {
  auto two = entry_of("mlp", 16);
  two["threads"] = 2;
  auto profile = profile_of({entry_of("mlp", 8), two});
  for (const auto& [threads, sigma] : {std::pair{1, 0.02}, {2, 0.05}})
    add_entry(profile, "jitter", {"network", "workers", "threads"}, {{"threads", threads}, {"precision", "fp32"}, {"kernels", "fast"}, {"network", "mlp"}, {"workers", 2}, {"median_ms", 10.0}, {"p95_ms", 30.0}, {"sigma_log", sigma}, {"correlation", 0.1}});
  const MeasuredWorker one{}, wide{.threads = 2};
  for (const auto& workers : {std::vector{one, wide}, std::vector{wide, one}}) EXPECT_NEAR(MeasuredMachine(profile, {.workers = workers, .network = "mlp"}).jitter(2).sigma, 0.05, 1e-12);
}

TEST(MeasuredMachine, JitterIsOfTheNetworkItselfAndOfTheBodyOfItsDistribution) {
  auto profile = profile_of({entry_of("mlp", 8)});
  const auto put = [&](const char* network, int workers, double sigma, double p95, const Json& correlation) {
    add_entry(profile, "jitter", {"network", "workers"}, {{"threads", 1}, {"precision", "fp32"}, {"kernels", "fast"}, {"network", network}, {"workers", workers}, {"median_ms", 10.0}, {"p95_ms", p95},
                                                          {"sigma_log", sigma}, {"correlation", correlation}});
  };
  const auto jitter = [&](const char* network, int workers) {
    return MeasuredMachine(profile, {.workers = std::vector<MeasuredWorker>(static_cast<std::size_t>(workers)), .network = network}).jitter(workers);
  };
  EXPECT_EQ(jitter("mlp", 2).sigma, 0) << "an older profile";
  put("lenet", 2, 0.5, 10 * std::exp(0.0329), 0.1);
  put("mlp", 1, 0.9, 20, nullptr);
  EXPECT_NEAR(jitter("mlp", 2).sigma, 0.02, 1e-12) << "of another network; not of one worker alone";
  put("mlp", 2, 0.03, 12, 0.4);
  put("mlp", 8, 0.05, 12, -0.2);
  EXPECT_NEAR(jitter("mlp", 2).sigma, 0.03, 1e-12);
  EXPECT_NEAR(jitter("mlp", 2).correlation, 0.4, 1e-12);
  EXPECT_NEAR(jitter("mlp", 64).sigma, 0.05, 1e-12);
  EXPECT_EQ(jitter("mlp", 64).correlation, 0);
  EXPECT_EQ(jitter("mlp", 1).sigma, 0);
  // Profiles of before say nothing of what comes and goes; of too few steps there is a usual share.
  EXPECT_EQ(jitter("mlp", 2).brief, 0);
  EXPECT_NEAR(jitter("mlp", 2).of_seconds, 0.01, 1e-12);
  for (auto& entry : profile["jitter"]) entry["brief"] = entry["workers"] == 2 ? Json(0.6) : Json();
  EXPECT_NEAR(jitter("mlp", 2).brief, 0.6, 1e-12);
  EXPECT_NEAR(jitter("mlp", 64).brief, 0.5, 1e-12);
}

// Of what others had on the wall's clock all may be in what was measured, of a core's own half.
TEST(MeasuredMachine, IsLessCertainOfWhatWasMeasuredBesideOthers) {
  const auto graph = make_model("lenet");
  const auto of = [&](double waited, const char* clock) {
    auto entry = entry_of("lenet", 8);
    entry["waited"] = waited;
    entry["clock"] = clock;
    return MeasuredMachine(profile_of({entry, entry_of("mlp", 8)}), {.network = "lenet"});
  };
  EXPECT_NEAR(of(0, "core").uncertainty(0, graph, 8), std::hypot(0.01, kOnce), 1e-6) << "the spread over places, and of a machine measured once";
  EXPECT_NEAR(of(0.2, "core").uncertainty(0, graph, 8), std::hypot(0.01, 0.1, kOnce), 1e-6);
  EXPECT_NEAR(of(0.2, "wall").uncertainty(0, graph, 8), std::hypot(0.01, 0.2, kOnce), 1e-6);
  EXPECT_DOUBLE_EQ(of(0.2, "core").waited(0), 0.2);
  EXPECT_EQ(MeasuredMachine(profile_of({entry_of("lenet", 8)}), {.network = "lenet"}).waited(0), 0) << "an older profile";
}

TEST(MeasuredMachine, SamplesOfALoaderBeforeBatchesBesideANetwork) {
  auto profile = profile_of({entry_of("mlp", 8)});
  const auto of = [&](bool made_up) {
    StepCosts costs;
    return MeasuredMachine(profile, {.network = "mlp", .dataset = "mnist", .made_up = made_up}).loader(0, 16, costs).seconds;
  };
  EXPECT_NEAR(of(true), 160e-6, 1e-9);
  add_entry(profile, "loader", {"dataset", "synthetic"}, {{"dataset", "mnist"}, {"synthetic", false}, {"sample_us", 3.0}});
  EXPECT_NEAR(of(false), 48e-6, 1e-9);
  EXPECT_NEAR(of(true), 160e-6, 1e-9) << "those that are made up are others";
}

double step_of(const Json& profile, int workers, std::int64_t batch) {
  const auto graph = make_model("mlp");
  const StrategyInput input{graph, workers, batch, 4, parse_spec(workers == 1 ? "single" : "data")};
  const auto plan = builtin_strategies().at(input.spec.name).make(input);
  const MeasuredMachine machine(profile, {.workers = std::vector<MeasuredWorker>(static_cast<std::size_t>(workers)), .network = "mlp"});
  return simulate_steps(plan, step_costs(plan, graph, batch, workers_as_actors(plan), machine), 3).step_seconds;
}

// Two cores: two workers compute side by side, four by turns; and as many as were measured slow each other down as they were measured to.
TEST(MeasuredMachine, WorkersShareCoresAndMemory) {
  auto profile = profile_of({entry_of("mlp", 8), entry_of("mlp", 4096)});
  profile["communication"][0]["one_shot"] = to_json(WireCost{{{0, ~std::size_t{0}, {1e-12}}}});
  profile["communication"][0]["rounds"] = to_json(WireCost{{{0, ~std::size_t{0}, {1e-12}}}});
  const double alone = step_of(profile, 1, 4096);
  EXPECT_NEAR(step_of(profile, 2, 2 * 4096), alone, 0.05 * alone);
  EXPECT_NEAR(step_of(profile, 4, 4 * 4096), 2 * alone, 0.1 * alone);
  add_entry(profile, "contention", {"what", "workers"}, {{"what", "steps"}, {"threads", 1}, {"precision", "fp32"}, {"kernels", "torch"}, {"network", "mlp"}, {"workers", 2}, {"slowdown", 1.5}});
  EXPECT_NEAR(step_of(profile, 2, 2 * 4096), alone, 0.05 * alone) << "of other kernels";
  profile["contention"].back()["kernels"] = "fast";
  EXPECT_NEAR(step_of(profile, 2, 2 * 4096), 1.5 * alone, 0.07 * alone);
  EXPECT_NEAR(step_of(profile, 1, 4096), alone, 1e-9);
}

// What passes lose in the training of layers in parts counts for that alone, and then before what replicas lose.
TEST(MeasuredMachine, WhatATrainingLosesIsItsOwn) {
  auto profile = profile_of({entry_of("mlp", 8), entry_of("mlp", 4096)});
  const auto add = [&](const char* network, const char* strategy, double slowdown) {
    Json entry{{"what", "steps"}, {"threads", 1}, {"precision", "fp32"}, {"kernels", "fast"}, {"network", network}, {"workers", 2}, {"slowdown", slowdown}};
    if (*strategy != 0) entry["strategy"] = strategy;
    add_entry(profile, "contention", entry_keys("contention"), entry);
  };
  const auto share = [&](const char* strategy) {
    StepCosts resources;
    const MeasuredMachine machine(profile, {.workers = {{}, {}}, .network = "mlp", .strategy = strategy});
    const auto demands = machine.computing(0, resources);
    return demands.size() < 2 ? 0 : demands[1].share;
  };
  add("mlp", "tensor", 1.8);
  EXPECT_EQ(share("data"), 0);
  EXPECT_NEAR(share("tensor"), 0.9, 1e-9);
  add("mlp", "", 1.2);
  EXPECT_NEAR(share("data"), 0.6, 1e-9);
  EXPECT_NEAR(share("tensor"), 0.9, 1e-9);
  EXPECT_NEAR(share("tensor[split=height]"), 0.6, 1e-9);
  // Of more workers than it was measured of replicas' counts, which may have been.
  StepCosts resources;
  profile["cpu"]["usable_cores"] = 4;
  EXPECT_NEAR(MeasuredMachine(profile, {.workers = {{}, {}, {}}, .network = "mlp", .strategy = "tensor"}).computing(0, resources)[1].share, 1.4 / 3, 1e-9);
  profile["cpu"]["usable_cores"] = 2;
  add("lenet", "tensor[split=height]", 1.9);
  EXPECT_NEAR(share("tensor[split=height]"), 0.6, 1e-9) << "of another network";
}

// Of eight cores: as many workers as nobody measured are slowed by what was measured around them, and by nothing where that was nothing.
TEST(MeasuredMachine, NumbersOfWorkersThatWereNotMeasuredAreBetweenThoseThatWere) {
  auto profile = profile_of({entry_of("mlp", 8), entry_of("mlp", 4096)});
  profile["cpu"]["usable_cores"] = 8;
  for (const auto* path : {"one_shot", "rounds"}) profile["communication"][0][path] = to_json(WireCost{{{0, ~std::size_t{0}, {1e-12}}}});
  const double alone = step_of(profile, 1, 4096);
  const auto slowed = [&](int workers, double of_two, double of_four) {
    auto measured = profile;
    for (const auto& [number, slowdown] : {std::pair{2, of_two}, {4, of_four}})
      add_entry(measured, "contention", {"what", "workers"}, {{"what", "steps"}, {"threads", 1}, {"precision", "fp32"}, {"kernels", "fast"}, {"network", "mlp"}, {"workers", number}, {"slowdown", slowdown}});
    return step_of(measured, workers, workers * 4096) / alone;
  };
  for (const int workers : {2, 3, 4, 6, 8}) EXPECT_NEAR(slowed(workers, 1, 1), 1, 0.02) << workers;
  EXPECT_NEAR(slowed(3, 1.2, 1.6), 1.4, 0.05);
  EXPECT_NEAR(slowed(6, 1, 1.6), 2, 0.1) << "as much more for each";
}

/// A step of two workers on two cores, each of which computes all the time; and what all-reduces that go on beside a backward take alone.
struct Overlapped {
  double step = 0, beside = 0;
};
Overlapped data_parallel_step(const Json& profile, bool overlap) {
  const auto graph = make_model("mlp");
  constexpr std::int64_t kBatch = 2 * 4096;
  const auto plan = builtin_strategies().at("data").make({graph, 2, kBatch, 4, parse_spec(overlap ? "data[bucket=1KiB,first-bucket=1KiB]" : "data[bucket=1KiB,first-bucket=1KiB,overlap=off]")});
  const MeasuredMachine machine(profile, {.workers = {{}, {}}, .network = "mlp"});
  const auto costs = step_costs(plan, graph, kBatch, workers_as_actors(plan), machine);
  Overlapped out{simulate_steps(plan, costs, 3).step_seconds, 0};
  const auto& role = plan.roles[0];
  double backward = 0, last = 0;
  for (std::size_t t = 0; t < role.tasks.size(); ++t) {
    const auto& task = role.tasks[t];
    if (task.kind == TaskKind::backward) backward = costs.tasks[0][t].seconds;
    if (task.kind != TaskKind::collective) continue;
    const double ready = costs.ready[0][static_cast<std::size_t>(task.bucket)];
    if (ready == 1) continue;  // of the network's first layer: nothing is left to compute
    out.beside += costs.tasks[0][t].seconds;
    last = ready;
  }
  EXPECT_GT(out.beside, 0);
  EXPECT_LT(2 * last * backward + 4 * out.beside, 2 * backward) << "they end before backward does";
  return out;
}

// What a collective and computing take from each other where both go on at once: the step is longer by that, and no longer where the collective comes after backward.
TEST(MeasuredMachine, AnAllReduceBesideBackwardSlowsBothAsTheyWereMeasuredTo) {
  auto profile = profile_of({entry_of("mlp", 8), entry_of("mlp", 4096)});
  profile["optimizer"] = Json::array();
  add_entry(profile, "optimizer", {"optimizer"}, {{"threads", 1}, {"optimizer", "sgd"}, {"bytes", 1 << 20}, {"update_us", 0.0}});
  const auto measured = [&](double slowdown, double collective_slowdown) {
    add_entry(profile, "contention", {"what"}, {{"what", "collective"}, {"device", "cpu"}, {"threads", 1}, {"workers", 2}, {"transport", "shm"}, {"slowdown", slowdown}, {"collective_slowdown", collective_slowdown}});
  };
  measured(1, 1);
  const auto free = data_parallel_step(profile, true), after = data_parallel_step(profile, false);
  EXPECT_GT(after.step, free.step + 0.9 * free.beside) << "hidden behind backward";
  measured(1.6, 1.6);
  EXPECT_NEAR(data_parallel_step(profile, true).step - free.step, 0.6 * free.beside, 1e-6 * free.beside);
  EXPECT_NEAR(data_parallel_step(profile, false).step, after.step, 1e-9 * after.step);
  // Where one lost more than the other, what both lost on the geometric mean.
  measured(1.6, 2.5);
  EXPECT_NEAR(data_parallel_step(profile, true).step - free.step, free.beside, 1e-6 * free.beside);
  EXPECT_NEAR(data_parallel_step(profile, false).step, after.step, 1e-9 * after.step);
}

// Two workers of sixteen cores leave most of them idle: what their all-reduce was not found to take from them it takes from those.
TEST(MeasuredMachine, AnAllReduceTakesIdleCoresFirst) {
  auto profile = profile_of({entry_of("mlp", 8)});
  profile["cpu"]["usable_cores"] = 16;
  const auto share = [&](int ranks) {
    StepCosts resources;
    std::vector<int> all(static_cast<std::size_t>(ranks));
    std::iota(all.begin(), all.end(), 0);
    const auto cost = MeasuredMachine(profile, {.workers = std::vector<MeasuredWorker>(static_cast<std::size_t>(ranks)), .network = "mlp"}).collective(Goal::all_reduce, 1 << 20, all, resources);
    return ranks * cost.demands.at(0).share;
  };
  EXPECT_NEAR(share(2), 2.0 / 16, 1e-12) << "unmeasured: a core a rank";
  const auto measured = [&](double slowdown) {
    add_entry(profile, "contention", {"what"}, {{"what", "collective"}, {"device", "cpu"}, {"threads", 1}, {"workers", 2}, {"transport", "shm"}, {"slowdown", slowdown}, {"collective_slowdown", slowdown}});
  };
  measured(1);
  for (const auto& [ranks, all] : {std::pair{2, 2.0 / 16}, {8, 8.0 / 16}, {16, 1.0}, {32, 1.0}}) EXPECT_NEAR(share(ranks), all, 1e-12) << ranks;
  // What was lost though cores are idle, whatever it is that both want: so much longer do both take, whoever has how many cores.
  const auto slowed = [&](double slowdown, int cores, int ranks) {
    profile["cpu"]["usable_cores"] = cores;
    measured(slowdown);
    StepCosts resources;
    std::vector<int> all(static_cast<std::size_t>(ranks));
    std::iota(all.begin(), all.end(), 0);
    const MeasuredMachine machine(profile, {.workers = std::vector<MeasuredWorker>(static_cast<std::size_t>(ranks)), .network = "mlp"});
    std::map<int, double> wanted;
    for (const int each : all) {
      for (const auto& demand : machine.collective(Goal::all_reduce, 1 << 20, all, resources).demands) wanted[demand.resource] += demand.share;
      for (const auto& demand : machine.computing(each, resources)) wanted[demand.resource] += demand.share;
    }
    double most = 1;
    for (const auto& [resource, all_of_it] : wanted) most = std::max(most, all_of_it);
    return most;
  };
  for (const int cores : {2, 3, 4, 16}) {
    EXPECT_NEAR(slowed(1.3, cores, 2), 1.3, 1e-9) << cores;
    EXPECT_NEAR(slowed(1, cores, 2), 1, 1e-9) << cores;
  }
  EXPECT_NEAR(slowed(1.3, 16, 8), 1.3, 1e-9);
  EXPECT_NEAR(slowed(1, 16, 8), 1, 1e-9);
  EXPECT_NEAR(slowed(1, 16, 16), 2, 1e-9) << "a core for each, and for each's collective";
}

// They had slowed each other before the collective came: it takes so much more of what both want that both are slowed as they were measured to, on idle cores and where there are none.
TEST(MeasuredMachine, AnAllReduceBesideWorkersThatSlowEachOther) {
  constexpr double kCompany = 1.5;
  for (const int cores : {2, 16})
    for (const double beside : {1.0, 1.1, 1.3, 1.6}) {
      auto profile = profile_of({entry_of("mlp", 8)});
      profile["cpu"]["usable_cores"] = cores;
      add_entry(profile, "contention", {"what"}, {{"what", "collective"}, {"device", "cpu"}, {"threads", 1}, {"workers", 2}, {"transport", "shm"}, {"slowdown", beside}, {"collective_slowdown", beside}});
      add_entry(profile, "contention", {"what"}, {{"what", "workers"}, {"device", "cpu"}, {"threads", 1}, {"workers", 2}, {"load", "memory"}, {"slowdown", kCompany}});
      add_entry(profile, "contention", {"what"}, {{"what", "steps"}, {"threads", 1}, {"precision", "fp32"}, {"kernels", "fast"}, {"network", "mlp"}, {"workers", 2}, {"slowdown", kCompany}});
      const MeasuredMachine machine(profile, {.workers = {{}, {}}, .network = "mlp"});
      StepCosts resources;
      std::map<int, double> computing, collective;
      for (const int each : {0, 1}) {
        for (const auto& demand : machine.collective(Goal::all_reduce, 1 << 20, {0, 1}, resources).demands) collective[demand.resource] += demand.share;
        for (const auto& demand : machine.computing(each, resources)) computing[demand.resource] += demand.share;
      }
      double most = 1, of_collective = 1;
      for (const auto& [resource, share] : computing) most = std::max(most, share + (collective.contains(resource) ? collective.at(resource) : 0));
      for (const auto& [resource, share] : collective)
        if (computing.contains(resource) && computing.at(resource) + share > kCompany) of_collective = std::max(of_collective, computing.at(resource) + share);
      // As long as they lose more to it than to each other.
      const double product = std::max(1.0, most / kCompany) * of_collective;
      if (beside * beside > kCompany) EXPECT_NEAR(product, beside * beside, 1e-9) << cores << " cores, " << beside;
      else EXPECT_LE(product, beside * beside) << cores << " cores, " << beside;
    }
}

/// The same machine with a GPU that computes the MLP so many times as fast, and copies 1 byte in 0.1 ns each way.
Json profile_with_gpu(double faster) {
  auto profile = profile_of({entry_of("mlp", 8), entry_of("mlp", 4096)});
  for (const int batch : {8, 4096}) {
    auto entry = entry_of("mlp", batch, 1 / faster);
    entry["device"] = "cuda";
    add_entry(profile, "compute", {"device", "network", "batch"}, entry);
  }
  add_entry(profile, "optimizer", {"device", "optimizer"}, {{"device", "cuda"}, {"threads", 1}, {"optimizer", "sgd"}, {"bytes", 1 << 20}, {"update_us", 1}});
  for (const auto* what : {"copy", "download", "upload"}) add_entry(profile, "memory", {"device", "what"}, {{"device", "cuda"}, {"what", what}, {"bytes", 1 << 20}, {"bytes_per_s", 1e10}});
  add_entry(profile, "launch", {"device"}, {{"device", "cuda"}, {"harness_us", 9}, {"memory_bytes", 16'000'000'000}});
  return profile;
}

// What is said of processors is not of GPUs, and the other way round.
TEST(MeasuredMachine, AGpuGoesByWhatWasMeasuredOfIt) {
  const auto graph = make_model("mlp");
  const auto profile = profile_with_gpu(8);
  const MeasuredMachine machine(profile, {.workers = {{}, {.device = "cuda:0"}}, .network = "mlp"});
  for (std::size_t l = 0; l < graph.layers.size(); ++l) EXPECT_NEAR(machine.layer(1, graph, l, 4096).forward, machine.layer(0, graph, l, 4096).forward / 8, 1e-12);
  EXPECT_NEAR(machine.update(1, 1 << 20), 1e-6, 1e-12);
  EXPECT_GT(machine.update(0, 1 << 20), 1e-4);
  StepCosts resources;
  EXPECT_NEAR(machine.harness(1, 1, resources).seconds, 9e-6, 1e-12);
  EXPECT_NEAR(machine.harness(0, 1, resources).seconds, 5e-6, 1e-12);
  EXPECT_TRUE(machine.writes_in_place(0));
  EXPECT_FALSE(machine.writes_in_place(1));
  // By way of the host's memory, there and back.
  const MeasuredMachine both(profile, {.workers = {{.device = "cuda:0"}, {.device = "cuda:1"}}, .network = "mlp"}), here(profile, {.workers = {{}, {}}, .network = "mlp"});
  EXPECT_NEAR(both.collective(Goal::all_reduce, 1 << 20, {0, 1}, resources).seconds, here.collective(Goal::all_reduce, 1 << 20, {0, 1}, resources).seconds + 2 * (1 << 20) * 1e-10, 1e-9);
}

// What graphs make of passes is of each batch, and between two goes along; copies and updates are those of such steps, too.
TEST(MeasuredMachine, PassesOfAGpuAreGraphsWhereThoseWereMeasured) {
  const auto graph = make_model("mlp");
  auto profile = profile_with_gpu(1);
  for (auto& entry : profile["compute"]) {
    entry["parameter_bytes"] = 1 << 20;
    entry["optimizer"] = "sgd";
    entry["update_us"] = 50;
    if (entry["device"] != "cuda") continue;
    const bool few = entry["batch"] == 8;
    entry["step"]["copy_ms"] = few ? 0.02 : 2;
    entry["graphs"] = {{"steps", 20}, {"correction", few ? 0.25 : 1}, {"load_ms", 0.01}, {"copy_ms", few ? 0.01 : 1}, {"update_ms", few ? 0.004 : 0.04}};
  }
  const auto machine = [](const Json& from, bool graphs, const char* device = "cuda:0") { return MeasuredMachine(from, {.workers = {{.device = device}}, .network = "mlp", .graphs = graphs}); };
  const auto with = machine(profile, true), without = machine(profile, false);
  EXPECT_TRUE(with.knows_graphs(0));
  EXPECT_TRUE(without.knows_graphs(0));
  const auto learns = learning_layers(graph);
  for (std::size_t l = 0; l < graph.layers.size(); ++l) {
    if (graph.layers[l].kind == LayerKind::input) continue;
    EXPECT_NEAR(with.layer(0, graph, l, 8).forward, without.layer(0, graph, l, 8).forward / 4, 1e-12);
    EXPECT_NEAR(with.layer(0, graph, l, 4096).backward(), without.layer(0, graph, l, 4096).backward(), 1e-12);
    EXPECT_NEAR(with.layer(0, graph, l, 2052).forward, (with.layer(0, graph, l, 8).forward + with.layer(0, graph, l, 4096).forward) / 2, 1e-12);
  }
  EXPECT_NEAR(without.load(0, 8), 0.03e-3, 1e-12);
  EXPECT_NEAR(without.load(0, 4096), 2.01e-3, 1e-12);
  EXPECT_NEAR(with.load(0, 8), 0.02e-3, 1e-12);
  EXPECT_NEAR(with.load(0, 2052), 0.515e-3, 1e-12);
  EXPECT_NEAR(without.update(0, 1 << 20), 50e-6, 1e-12);
  EXPECT_NEAR(with.update(0, 1 << 20), 22e-6, 1e-12);
  // A processor has none: its own time stands, and nothing is lacking.
  const auto here = machine(profile, true, "cpu");
  EXPECT_TRUE(here.knows_graphs(0));
  EXPECT_EQ(here.layer(0, graph, 1, 8).forward, machine(profile, false, "cpu").layer(0, graph, 1, 8).forward);
  // Where they were not measured steps are as without, and that is to be told; where they could not be had it is right so.
  for (const Json& lacks : {Json(), Json{{"why_not", "the device has none"}}}) {
    auto older = profile;
    for (auto& entry : older["compute"]) entry["graphs"] = lacks;
    EXPECT_EQ(machine(older, true).knows_graphs(0), lacks.is_object());
    EXPECT_EQ(machine(older, true).layer(0, graph, 1, 8).forward, without.layer(0, graph, 1, 8).forward);
  }
  // Each entry by its own: one batch had none.
  auto some = profile;
  for (auto& entry : some["compute"]) {
    entry["correction"] = 1.4;
    if (entry["batch"] == 4096) entry["graphs"] = {{"why_not", "memory"}};
  }
  EXPECT_NEAR(machine(some, true).layer(0, graph, 1, 8).forward, with.layer(0, graph, 1, 8).forward, 1e-12);
  EXPECT_NEAR(machine(some, true).layer(0, graph, 1, 4096).forward, 1.4 * without.layer(0, graph, 1, 4096).forward, 1e-9);
  // How the host drifted is of passes that it starts one by one.
  auto drifted = profile;
  for (auto& entry : drifted["compute"]) {
    entry["pass_ms"] = 3;
    entry["history"] = Json::array({{{"measured", "a"}, {"build", "b"}, {"pass_ms", 1}}, {{"measured", "a"}, {"build", "b"}, {"pass_ms", 1}}, {{"measured", "b"}, {"build", "b"}, {"pass_ms", 3}}});
  }
  EXPECT_NEAR(machine(drifted, true).layer(0, graph, 1, 8).forward, with.layer(0, graph, 1, 8).forward, 1e-12);
  EXPECT_NEAR(machine(drifted, false).layer(0, graph, 1, 8).forward, without.layer(0, graph, 1, 8).forward / 3, 1e-12);
  // Between a batch whose operations the host starts too slowly and one whose it does not, a pass takes the longer of both.
  auto paced = profile;
  for (auto& entry : paced["compute"]) {
    const bool few = entry["batch"] == 8;
    entry["forward_ms"] = few ? 4 : 10;
    entry["backward_ms"] = few ? 6 : 30;
  }
  const auto bent = machine(paced, false);
  for (const auto& [samples, times] : {std::pair{8, 1.0}, {4096, 1.0}, {8 + 4088 / 8, 10 / 13.75}, {2052, (2.5 + 40) / (10 + 40)}})
    EXPECT_NEAR(bent.layer(0, graph, 1, samples).forward, times * without.layer(0, graph, 1, samples).forward, 1e-12) << samples;
  // By graphs it lies below the line: t^1.5 goes along with samples^1.5 from 2.5 to 40 ms.
  const double up = (std::pow(2052, 1.5) - std::pow(8, 1.5)) / (std::pow(4096, 1.5) - std::pow(8, 1.5)), taken = std::pow(std::pow(2.5, 1.5) + up * (std::pow(40, 1.5) - std::pow(2.5, 1.5)), 1 / 1.5);
  EXPECT_LT(taken, 0.97 * (2.5 + 40) / 2);
  EXPECT_GT(taken, 20);
  EXPECT_NEAR(machine(paced, true).layer(0, graph, 1, 2052).forward, taken / ((2.5 + 40) / 2) * with.layer(0, graph, 1, 2052).forward, 1e-12);
  for (const int samples : {8, 4096, 8192}) EXPECT_NEAR(machine(paced, true).layer(0, graph, 1, samples).forward, with.layer(0, graph, 1, samples).forward, 1e-12) << samples;
  // The further from both, in doublings, the less is known; on a processor time goes along with samples.
  EXPECT_NEAR(std::pow(with.uncertainty(0, graph, 32), 2) - std::pow(with.uncertainty(0, graph, 8), 2), std::pow(0.06 * 2, 2), 1e-9);
  EXPECT_NEAR(with.beyond(0, graph, 32).between, 2, 1e-9);
  EXPECT_EQ(with.beyond(0, graph, 8).between, 0);
  EXPECT_EQ(with.beyond(0, graph, 8192).between, 0);
  EXPECT_EQ(machine(profile, true, "cpu").beyond(0, graph, 32).between, 0);
  EXPECT_EQ(machine(paced, false, "cpu").layer(0, graph, 1, 2052).forward, machine(profile, false, "cpu").layer(0, graph, 1, 2052).forward);
  // The more of a pass waits for the host to start operations, the less is known of one without graphs.
  auto bound = profile;
  for (auto& entry : bound["compute"])
    if (entry["device"] == "cuda") entry["graphs"]["correction"] = 1;
  EXPECT_NEAR(std::pow(without.uncertainty(0, graph, 8), 2) - std::pow(machine(bound, false).uncertainty(0, graph, 8), 2), std::pow(0.4 * 0.75, 2), 1e-9);
  EXPECT_NEAR(without.uncertainty(0, graph, 4096), machine(bound, false).uncertainty(0, graph, 4096), 1e-12);
  // Fewer samples than were measured wait as those did, and of a network that was not measured others tell.
  for (const auto& [network, samples] : {std::pair{"mlp", 1}, {"lenet", 8}}) {
    const auto of = [&](const Json& from) { return MeasuredMachine(from, {.workers = {{.device = "cuda:0"}}, .network = network}).uncertainty(0, graph, samples); };
    EXPECT_NEAR(std::pow(of(profile), 2) - std::pow(of(bound), 2), std::pow(0.4 * 0.75, 2), 1e-9) << network;
  }
  EXPECT_NEAR(with.uncertainty(0, graph, 8), machine(bound, true).uncertainty(0, graph, 8), 1e-12);
  EXPECT_NEAR(machine(profile, false, "cpu").uncertainty(0, graph, 8), machine(bound, false, "cpu").uncertainty(0, graph, 8), 1e-12);
  // A network's samples of another data set are copied otherwise; a loader that could not keep up is not the worker's time.
  auto others = profile;
  auto larger = others["compute"].back();
  larger["dataset"] = "imagenet";
  larger["graphs"]["copy_ms"] = 50;
  larger["graphs"]["load_ms"] = 14;
  others["compute"].push_back(larger);
  const MeasuredMachine of_mnist(others, {.workers = {{.device = "cuda:0"}}, .network = "mlp", .dataset = "mnist", .graphs = true});
  EXPECT_NEAR(of_mnist.load(0, 4096), 1.01e-3, 1e-9);
}

// Made beside two networks, a batch took 1.8 times as long beside one of them.
TEST(MeasuredMachine, KnowsHowFarApartALoaderWasFound) {
  auto one = entry_of("mlp", 8), other = entry_of("lenet", 8), larger = entry_of("mlp", 64);
  other["loader_us"] = one["loader_us"].get<double>() * 1.8;
  const auto uncertainty = [](const std::vector<Json>& entries, const char* dataset = "mnist") {
    return MeasuredMachine(profile_of(entries), {.network = "mlp", .dataset = dataset}).loader_uncertainty(0);
  };
  const double known = uncertainty({one, other, larger});
  // Two about their middle, and the next one about it.
  EXPECT_NEAR(known, std::log(1.8) / std::sqrt(2) * std::sqrt(1.5), 1e-9);
  EXPECT_NEAR(uncertainty({one, larger}), 0.15, 1e-12);
  // Steps that waited for it tell as much, at the pace that it has beside them.
  auto waited = one;
  waited["step"] = {{"load_ms", 0.03}, {"copy_ms", 0.006}, {"wall_ms", 0.16}};  // .01 of which is taking a batch that is there
  EXPECT_NEAR(uncertainty({waited, larger}), known, 1e-9);
  StepCosts resources;
  EXPECT_NEAR(MeasuredMachine(profile_of({waited, larger}), {.network = "mlp", .dataset = "mnist"}).loader(0, 8, resources).seconds, 0.112e-3, 1e-9);
  for (const auto& [load, wall] : {std::pair{0.025, 0.16}, {0.05, 0.21}}) {
    waited["step"]["load_ms"] = load;
    waited["step"]["wall_ms"] = wall;
    EXPECT_NEAR(uncertainty({waited, larger}), 0.15, 1e-12) << load;
  }
  EXPECT_NEAR(uncertainty({one, other, larger}, "imagenet"), 0, 1e-12);
  auto rate = profile_of({one, other});
  add_entry(rate, "loader", {"dataset", "synthetic"}, {{"dataset", "mnist"}, {"synthetic", false}, {"sample_us", 3.0}});
  EXPECT_EQ(MeasuredMachine(rate, {.network = "mlp", .dataset = "mnist", .made_up = false}).loader_uncertainty(0), 0.15);
}

TEST(MeasuredMachine, WorkersOnOneGpuShareIt) {
  const auto step = [&](const std::vector<MeasuredWorker>& workers) {
    const auto graph = make_model("mlp");
    const auto plan = builtin_strategies().at("data").make({graph, 2, 8192, 4, parse_spec("data")});
    const MeasuredMachine machine(profile_with_gpu(1), {.workers = workers, .network = "mlp"});
    const auto costs = step_costs(plan, graph, 8192, workers_as_actors(plan), machine);
    double computing = 0;
    for (std::size_t t = 0; t < plan.roles[0].tasks.size(); ++t)
      if (const auto kind = plan.roles[0].tasks[t].kind; kind == TaskKind::forward || kind == TaskKind::backward) computing += costs.tasks[0][t].seconds;
    return std::pair{simulate_steps(plan, costs, 3).step_seconds, computing};
  };
  const auto [own, computing] = step({{.device = "cuda:0"}, {.device = "cuda:1"}});
  const auto [shared, same] = step({{.device = "cuda:0"}, {.device = "cuda:0"}});
  EXPECT_EQ(computing, same);
  EXPECT_GT(shared - own, 0.9 * computing);
  EXPECT_LT(shared - own, 1.1 * computing);
}

// On a GPU's multiprocessors, as on a processor's cores.
TEST(MeasuredMachine, ACollectiveTakesOfAGpuWhatWasMeasured) {
  const auto graph = make_model("mlp");
  const auto plan = builtin_strategies().at("data").make({graph, 2, 8192, 4, parse_spec("data[bucket=1KiB,first-bucket=1KiB]")});
  const auto step = [&](double slowdown) {
    auto profile = profile_with_gpu(1);
    add_entry(profile, "contention", {"device", "what"}, {{"device", "cuda"}, {"what", "collective"}, {"threads", 1}, {"workers", 2}, {"transport", "shm"}, {"slowdown", slowdown}, {"collective_slowdown", slowdown}});
    const MeasuredMachine machine(profile, {.workers = {{.device = "cuda:0"}, {.device = "cuda:1"}}, .network = "mlp"});
    return simulate_steps(plan, step_costs(plan, graph, 8192, workers_as_actors(plan), machine), 3).step_seconds;
  };
  // Few and small buckets beside much computing.
  const double free = step(1), half = step(1.5), all = step(2);
  EXPECT_GT(half - free, 1e-7);
  EXPECT_NEAR(all - free, 2 * (half - free), 1e-3 * (all - free));
}

TEST(MeasuredMachine, WhatOfAGpuWasNotMeasuredNamesItsProbe) {
  auto profile = profile_of({entry_of("mlp", 8)});
  const auto refusal = [](const std::function<void()>& body) -> std::string {
    try {
      body();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const MeasuredSetup setup{.workers = {{.device = "cuda:0"}, {.device = "cuda:1"}}, .network = "mlp"};
  EXPECT_NE(refusal([&] { const MeasuredMachine machine(profile, setup); }).find("on cuda in fp32 by kernels fast was not measured; run ddlbench probe compute --model mlp --device cuda"), std::string::npos);
  profile = profile_with_gpu(1);
  std::erase_if(profile["memory"].get_ref<Json::array_t&>(), [](const Json& entry) { return entry["what"] == "upload"; });
  const MeasuredMachine machine(profile, setup);
  StepCosts resources;
  EXPECT_NE(refusal([&] { machine.collective(Goal::all_reduce, 1 << 20, {0, 1}, resources); }).find("copies between cuda and the host take was not measured; run ddlbench probe compute --device cuda"), std::string::npos);
}

}  // namespace
}  // namespace ddl
