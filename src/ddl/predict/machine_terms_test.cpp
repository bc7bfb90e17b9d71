#include "ddl/predict/machine_terms.h"

#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/predict/machine.h"

namespace ddl {
namespace {

Json good() {
  auto machine = new_machine({{"host", "here"}, {"cpu", {{"model", "Fast 3000"}, {"usable_cores", 2}}}});
  const Json piece{{"from_bytes", 0}, {"to_bytes", ~std::size_t{0}}, {"alpha_us", 1}, {"overhead_us", 0}, {"beta_ns_per_byte", 0.1}, {"copy_ns_per_byte", 0}, {"gamma_ns_per_byte", 0}, {"local_ns_per_byte", 0}};
  const Json layer{{"sort", "linear 10 10"}, {"family", "linear"}, {"flops", 200}, {"elements", 20}, {"parameters", 110}, {"count", 1}, {"forward_us", 1.5}, {"backward_input_us", nullptr}, {"backward_weight_us", 2}, {"spread", 0.01}};
  machine["communication"] = Json::array({{{"transport", "shm"}, {"ranks", 2}, {"memory", "own"}, {"rounds", Json::array({piece})}, {"one_shot", Json::array()},
                                           {"best", Json::array({{{"collective", "all-reduce"}, {"from_bytes", 0}, {"to_bytes", 100}, {"algorithm", "direct"}}})}}});
  machine["compute"] = Json::array({{{"device", "cpu"}, {"threads", 1}, {"precision", "fp32"}, {"kernels", "fast"}, {"network", "lenet"}, {"dataset", "mnist"}, {"batch", 8}, {"correction", 1}, {"pass_ms", 2},
                                     {"step", {{"load_ms", 0.1}, {"copy_ms", 0.1}}}, {"loader_us", 3}, {"layers", Json::array({layer})}, {"history", Json::array({{{"pass_ms", 2}, {"build", "a"}}})}}});
  machine["optimizer"] = Json::array({{{"device", "cpu"}, {"threads", 1}, {"optimizer", "sgd"}, {"bytes", 100}, {"update_us", 1}}});
  machine["memory"] = Json::array({{{"what", "triad"}, {"threads", 1}, {"bytes", 100}, {"bytes_per_s", 1e9}}});
  machine["compression"] = Json::array({{{"compression", "topk"}, {"ranks", 2}, {"bytes", 100}, {"own_us", 1}}});
  machine["contention"] = Json::array({{{"what", "collective"}, {"workers", 2}, {"slowdown", 1.1}, {"collective_slowdown", 1.2}}, {{"what", "steps"}, {"network", "lenet"}, {"workers", 2}, {"slowdown", 1.1}}});
  machine["jitter"] = Json::array({{{"network", "lenet"}, {"workers", 2}, {"median_ms", 1}, {"p95_ms", 1.1}, {"sigma_log", 0.02}}});
  machine["loader"] = Json::array({{{"dataset", "mnist"}, {"synthetic", true}, {"sample_us", 1}}});
  return machine;
}

/// What is said of a profile; empty where nothing is wrong.
std::string said(const Json& machine, Code code = Code::not_found) {
  try {
    require_terms(machine, "here.json");
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
}

TEST(MachineTerms, OfTwoEntriesOfTheSameNeitherIsTaken) {
  auto machine = good();
  machine["compute"].push_back(machine["compute"][0]);
  machine["compute"][1]["pass_ms"] = 20;
  EXPECT_NE(said(machine, Code::corrupt).find("here.json: compute, entries 0 and 1 are of the same (device cpu, threads 1, precision fp32, kernels fast, network lenet, dataset mnist, batch 8); expected one of them"), std::string::npos) << said(machine, Code::corrupt);
  // 8 and 8.0 are one batch.
  machine["compute"][1]["batch"] = 8.0;
  EXPECT_NE(said(machine, Code::corrupt).find("entries 0 and 1 are of the same"), std::string::npos);
  machine["compute"][1]["batch"] = 16;
  EXPECT_EQ(said(machine), "");
}

TEST(MachineTerms, OfALibrarysOwnCollectivesItsTimesAreNeeded) {
  auto machine = good();
  machine["communication"][0]["native"] = Json::array({{{"collective", "all-reduce"}, {"algorithm", "native"}, {"points", Json::array({{{"bytes", 1024}, {"time_us", 10}}})}}});
  EXPECT_EQ(said(machine), "");
  machine["communication"][0]["native"][0]["points"][0].erase("time_us");
  EXPECT_NE(said(machine).find("time_us"), std::string::npos) << said(machine);
  EXPECT_NE(said(machine).find("probe comm"), std::string::npos) << said(machine);
}

TEST(MachineTerms, ACorrelationIsOne) {
  auto machine = good();
  for (const Json& good : {Json(0.4), Json(-1), Json()}) {
    machine["jitter"][0]["correlation"] = good;
    EXPECT_EQ(said(machine), "");
  }
  machine["jitter"][0]["correlation"] = 5;
  EXPECT_NE(said(machine, Code::corrupt).find("correlation; got 5, expected a number from -1 to 1, or null"), std::string::npos);
}

TEST(MachineTerms, ATermThatIsMissingIsNamedWithItsEntryAndProbe) {
  EXPECT_EQ(said(good()), "");
  const std::tuple<const char*, const char*, const char*> missing[] = {
      {"communication", "best", "ddlbench probe comm --transport shm --ranks 2 measures it again"},
      {"communication", "transport", "take the entry out, and ddlbench probe comm --ranks 2 measures it again"},
      {"compute", "layers", "ddlbench probe compute --model lenet --dataset mnist --batch 8 --threads 1 --precision fp32 --kernels fast measures it again"},
      {"compute", "correction", "--model lenet"},
      {"optimizer", "update_us", "ddlbench probe compute --optimizer sgd --threads 1 measures it again"},
      {"memory", "bytes_per_s", "ddlbench probe compute --threads 1 measures it again"},
      {"memory", "threads", "take the entry out, and ddlbench probe compute measures it again"},
      {"compression", "own_us", "ddlbench probe compute --compression topk measures it again"},
      {"contention", "slowdown", "ddlbench probe compute measures it again"},
      {"contention", "collective_slowdown", "ddlbench probe compute measures it again"},
      {"jitter", "p95_ms", "ddlbench probe compute --model lenet measures it again"},
      {"loader", "sample_us", "ddlbench probe loader --dataset mnist --synthetic measures it again"}};
  for (const auto& [part, term, probe] : missing) {
    auto machine = good();
    machine[part][0].erase(term);
    const auto words = said(machine);
    EXPECT_NE(words.find(fmt::format("[machine] here.json: {}, entry 0 (", part)), std::string::npos) << words;
    EXPECT_NE(words.find(fmt::format("): {}; got nothing, expected ", term)), std::string::npos) << words;
    EXPECT_NE(words.find(probe), std::string::npos) << words;
  }
  // Of which memory, too.
  auto evicted = good();
  evicted["communication"][0]["memory"] = "evicted";
  evicted["communication"][0].erase("best");
  EXPECT_NE(said(evicted).find("ddlbench probe comm --transport shm --ranks 2 --memory evicted measures it again"), std::string::npos) << said(evicted);
  auto steps = good();
  steps["contention"][1].erase("network");
  EXPECT_NE(said(steps).find("contention, entry 1 (what steps, workers 2): network; got nothing"), std::string::npos) << said(steps);
}

TEST(MachineTerms, WhatLiesWithinAnEntryCounts) {
  auto machine = good();
  machine["compute"][0]["layers"][0].erase("forward_us");
  EXPECT_NE(said(machine).find("(device cpu, threads 1, precision fp32, kernels fast, network lenet, dataset mnist, batch 8): layers.forward_us; got nothing, expected a number that is not negative, or null"), std::string::npos) << said(machine);
  machine = good();
  machine["compute"][0]["parts"] = Json::array({{{"layers", Json::array({Json::object()})}}});
  EXPECT_NE(said(machine).find("parts.layers.sort; got nothing"), std::string::npos) << said(machine);
  machine = good();
  machine["communication"][0]["rounds"][0]["alpha_us"] = "fast";
  EXPECT_NE(said(machine, Code::corrupt).find("rounds.alpha_us; got \"fast\", expected a number"), std::string::npos);
  machine = good();
  machine["compute"][0]["parameter_bytes"] = 100;
  EXPECT_NE(said(machine).find("update_us; got nothing, expected a number that is not negative"), std::string::npos) << said(machine);
  machine = good();
  machine["compute"][0]["step"] = 3;
  EXPECT_NE(said(machine, Code::corrupt).find("step; got 3, expected an object"), std::string::npos);
  machine = good();
  machine["compute"][0]["history"][0].erase("pass_ms");
  EXPECT_NE(said(machine).find("history.pass_ms; got nothing"), std::string::npos);
  machine = good();
  for (const Json& lacking : {Json(), Json{{"why_not", "none"}}}) {
    machine["compute"][0]["graphs"] = lacking;
    EXPECT_EQ(said(machine), "");
  }
  machine["compute"][0]["graphs"] = {{"steps", 20}, {"correction", 0.5}, {"load_ms", 0}, {"copy_ms", 0}};
  EXPECT_NE(said(machine).find("graphs.update_ms; got nothing"), std::string::npos);
  machine["compute"][0]["graphs"] = "fast";
  EXPECT_NE(said(machine, Code::corrupt).find("graphs; got \"fast\", expected an object, or null"), std::string::npos);
  machine = good();
  machine["jitter"] = Json::array({3});
  EXPECT_NE(said(machine, Code::corrupt).find("jitter, entry 0: got 3, expected an object"), std::string::npos);
}

// Numbers that nothing can be measured to be.
TEST(MachineTerms, NumbersThatCannotBe) {
  const std::tuple<const char*, const char*, double> wrong[] = {{"communication", "ranks", -3}, {"compute", "correction", -2}, {"compute", "batch", 0}, {"compute", "loader_us", -1}, {"optimizer", "update_us", -1},
                                                                {"memory", "bytes_per_s", 0}, {"contention", "slowdown", 0}, {"jitter", "sigma_log", -0.1}};
  for (const auto& [part, term, value] : wrong) {
    auto machine = good();
    machine[part][0][term] = value;
    EXPECT_NE(said(machine, Code::corrupt).find(fmt::format("{}; got ", term)), std::string::npos) << part << " " << term;
  }
  auto machine = good();
  machine["compute"][0]["layers"][0]["forward_us"] = -1;
  EXPECT_NE(said(machine, Code::corrupt).find("layers.forward_us; got -1, expected a number that is not negative, or null"), std::string::npos);
  machine = good();
  machine["compute"][0]["history"][0]["pass_ms"] = -1;
  EXPECT_NE(said(machine, Code::corrupt).find("history.pass_ms; got -1"), std::string::npos);
  for (const auto& cores : {Json(-3), Json(0), Json("two")}) {
    machine = good();
    machine["cpu"]["usable_cores"] = cores;
    EXPECT_NE(said(machine, Code::corrupt).find("here.json: cpu.usable_cores; got "), std::string::npos);
  }
  machine.erase("cpu");
  EXPECT_NE(said(machine).find("cpu.usable_cores; got nothing, expected a number above 0"), std::string::npos);
}

// Of two entries the later counts: "yesterday" would be later than any day.
TEST(MachineTerms, TimesAreTimes) {
  for (const auto* part : {"communication", "compute", "jitter"})
    for (const auto& wrong : {Json("yesterday"), Json(""), Json("2026-11-21T10:15"), Json("2026-11-21 10:15:02Z"), Json("2026-11-21T10:15:02.Z"), Json("2026-11-21T10:15:02.123Z "), Json("2026-11"), Json("2026-13-01"), Json("9999-99-99"), Json("2026-11-21T24:15:02Z"), Json(20261121)}) {
      auto machine = good();
      machine[part][0]["measured"] = wrong;
      EXPECT_NE(said(machine, Code::corrupt).find(fmt::format("measured; got {}, expected a time as 2026-11-21T10:15:02.123Z", wrong.dump())), std::string::npos) << part << " " << wrong;
    }
  for (const auto& right : {"2026-11-21T10:15:02.123Z", "2026-11-21T10:15:02Z", "2026-11-21"}) {
    auto machine = good();
    machine["compute"][0]["measured"] = right;
    EXPECT_EQ(said(machine), "") << right;
  }
  auto machine = good();
  machine["compute"][0]["device"] = nullptr;
  EXPECT_NE(said(machine, Code::corrupt).find("device; got null, expected a word"), std::string::npos);
  machine = good();
  machine["storage"] = Json::array({{{"folder", "/data"}, {"measured", "now"}, {"bytes_per_s", 1e6}}});
  EXPECT_NE(said(machine, Code::corrupt).find("expected a time as 2026-11-21T10:15:02.123Z; ddlbench probe storage --data /data measures it again"), std::string::npos);
  machine["storage"][0] = {{"folder", "/data"}};
  EXPECT_NE(said(machine).find("storage, entry 0 (folder /data): bytes_per_s; got nothing"), std::string::npos);
}

TEST(MachineTerms, WhatADatasheetSays) {
  const auto sheet = [](const char* part, const char* key, const Json& value) {
    Json machine{{"schema", "ddlbench.machine/1"}, {"communication", Json::array()}, {"device", {{"memory_bandwidth", 1e12}, {"peak_flops", {{"fp32", 1e13}}}}}, {"node", {{"devices", 8}, {"bus_bandwidth", 1e11}}}};
    machine[part][key] = value;
    return said(machine, Code::corrupt);
  };
  EXPECT_EQ(sheet("node", "devices", 4), "");
  EXPECT_EQ(sheet("node", "devices", 0), "[machine] here.json: node.devices; got 0, expected a number above 0");
  EXPECT_EQ(sheet("device", "memory_bandwidth", -5), "[machine] here.json: device.memory_bandwidth; got -5, expected a number above 0");
  EXPECT_EQ(sheet("device", "memory_bandwidth", "fast"), "[machine] here.json: device.memory_bandwidth; got \"fast\", expected a number above 0");
  EXPECT_EQ(sheet("device", "peak_flops", {{"fp16", 0}}), "[machine] here.json: device.peak_flops.fp16; got 0, expected a number above 0");
  EXPECT_EQ(sheet("device", "multiplies_bf16", true), "");
  EXPECT_EQ(sheet("device", "multiplies_bf16", 1), "[machine] here.json: device.multiplies_bf16; got 1, expected true or false");
  EXPECT_EQ(sheet("device", "peak_flops", 3), "[machine] here.json: device.peak_flops; got 3, expected an object, by precision");
}

// Profiles of before, which did not say these yet, are whole.
TEST(MachineTerms, WhatNothingNeedsMayBeAbsent) {
  auto machine = good();
  for (const auto* term : {"pass_ms", "history"}) machine["compute"][0].erase(term);
  for (const auto* part : {"optimizer", "memory", "compression", "contention", "jitter", "loader"}) machine.erase(part);
  EXPECT_EQ(said(machine), "");
}

}  // namespace
}  // namespace ddl
