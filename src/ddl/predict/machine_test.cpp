#include "ddl/predict/machine.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "ddl/core/error.h"

namespace ddl {
namespace {

const Json kEnvironment{{"host", "here"}, {"cpu", {{"model", "Fast 3000"}, {"usable_cores", 2}, {"governor", "schedutil"}}}};

CommunicationPart part(const std::string& transport, const std::string& algorithm) {
  CommunicationPart made{transport, 2};
  made.rounds.pieces = {{0, 4096, {1e-6, 2e-7, 3e-10, 1e-11, 4e-11}}, {4096, ~std::size_t{0}, {2e-6, 0, 5e-10}}};
  made.best = {{{"collective", "all-reduce"}, {"from_bytes", 0}, {"to_bytes", 1000}, {"algorithm", "recursive-doubling"}},
               {{"collective", "all-reduce"}, {"from_bytes", 1000}, {"to_bytes", ~std::size_t{0}}, {"algorithm", algorithm}}};
  made.measured = "2026-11-21T10:00:00Z";
  return made;
}

TEST(Machine, GivesBackWhatWasPutIn) {
  auto machine = new_machine(kEnvironment);
  add(machine, part("tcp", "ring"));
  add(machine, part("shm", "direct"));
  const auto path = std::filesystem::temp_directory_path() / ("ddl-machine-" + std::to_string(::getpid()) + ".json");
  write_file(path.string(), machine.dump(1));
  const auto read = read_machine(path.string());
  std::filesystem::remove(path);
  EXPECT_EQ(read, machine);
  EXPECT_EQ(best_algorithm(read, "tcp", 2, Goal::all_reduce, 999), "recursive-doubling");
  EXPECT_EQ(best_algorithm(read, "tcp", 2, Goal::all_reduce, std::size_t{1} << 40), "ring");
  EXPECT_EQ(best_algorithm(read, "tcp", 3, Goal::all_reduce, 1), "");
  EXPECT_EQ(best_algorithm(read, "tcp", 2, Goal::broadcast, 1), "");
  const auto cost = wire_cost_from_json(read["communication"][0]["rounds"]);
  EXPECT_NEAR(cost.at(100).beta, 3e-10, 1e-18);
  EXPECT_NEAR(cost.at(1 << 20).alpha, 2e-6, 1e-15);
}

TEST(Machine, ALaterMeasurementTakesTheEarliersPlace) {
  auto machine = new_machine(kEnvironment);
  machine["notes"] = "kept";
  add(machine, part("tcp", "ring"));
  add(machine, part("tcp", "tree"));
  EXPECT_EQ(machine["communication"].size(), 1U);
  EXPECT_EQ(best_algorithm(machine, "tcp", 2, Goal::all_reduce, 5000), "tree");
  EXPECT_EQ(machine["notes"], "kept");
}

TEST(Machine, OtherPartsAreMergedEntryByEntry) {
  // As an older version wrote it.
  auto machine = new_machine(kEnvironment);
  machine["notes"] = "kept";
  EXPECT_TRUE(entries(machine, "compute").empty());
  const std::vector<std::string> keys{"network", "batch", "what"};
  add_entry(machine, "compute", keys, {{"network", "lenet"}, {"batch", 8}, {"pass_ms", 1}});
  add_entry(machine, "compute", keys, {{"network", "lenet"}, {"batch", 32}, {"pass_ms", 4}});
  add_entry(machine, "compute", keys, {{"network", "lenet"}, {"batch", 8}, {"what", "other"}, {"pass_ms", 5}});
  add_entry(machine, "compute", keys, {{"network", "lenet"}, {"batch", 8}, {"pass_ms", 2}});
  ASSERT_EQ(entries(machine, "compute").size(), 3U);
  EXPECT_EQ(entries(machine, "compute")[0]["pass_ms"], 2);
  EXPECT_EQ(entries(machine, "compute")[1]["pass_ms"], 4);
  EXPECT_EQ(entries(machine, "compute")[2]["pass_ms"], 5);
  EXPECT_EQ(machine["notes"], "kept");
  EXPECT_TRUE(machine["communication"].empty());
  machine["compute"] = "lenet";
  EXPECT_THROW(entries(machine, "compute"), Error);
  EXPECT_THROW(add_entry(machine, "compute", keys, {}), Error);
  EXPECT_EQ(machine["compute"], "lenet");
}

TEST(Machine, SaysHowMuchMemoryThereIs) {
  auto machine = new_machine(kEnvironment);
  add_memory(machine, kEnvironment);
  EXPECT_FALSE(machine.contains("device")) << "an environment that does not say";
  auto environment = kEnvironment;
  environment["memory"]["total_bytes"] = 16e9;
  environment["cgroup"]["memory_limit_bytes"] = nullptr;
  add_memory(machine, environment);
  EXPECT_EQ(machine["device"]["memory_bytes"], 16e9);
  environment["cgroup"]["memory_limit_bytes"] = 4e9;
  add_memory(machine, environment);
  EXPECT_EQ(machine["device"]["memory_bytes"], 4e9);
  // That alone is no datasheet.
  EXPECT_FALSE(is_datasheet(machine));
  machine["device"]["memory_bandwidth"] = 1e11;
  EXPECT_TRUE(is_datasheet(machine));
}

TEST(Machine, SaysWhetherItMultipliesBf16) {
  auto machine = new_machine(kEnvironment);
  EXPECT_EQ(multiplies_bf16_there(machine), std::nullopt) << "a profile of before";
  auto environment = kEnvironment;
  for (const auto& [isa, does] : {std::pair{Json{"avx2", "avx512f"}, false}, {Json{"avx2", "avx512_bf16"}, true}, {Json{"amx_bf16"}, true}}) {
    environment["cpu"]["isa"] = isa;
    add_memory(machine, environment);
    EXPECT_EQ(multiplies_bf16_there(machine), does) << isa;
    EXPECT_FALSE(is_datasheet(machine));
  }
  const auto sheet = [](const char* kind, const char* precision) { return multiplies_bf16_there({{"device", {{"kind", kind}, {"memory_bandwidth", 1e11}, {"peak_flops", {{precision, 1e12}}}}}}); };
  EXPECT_EQ(sheet("cpu", "fp32"), false);
  EXPECT_EQ(sheet("cpu", "bf16"), true);
  EXPECT_EQ(sheet("gpu", "fp32"), std::nullopt);
}

TEST(Machine, KnowsItsOwn) {
  const auto machine = new_machine(kEnvironment);
  EXPECT_TRUE(same_machine(machine, kEnvironment));
  auto other = kEnvironment;
  other["cpu"]["usable_cores"] = 4;
  EXPECT_FALSE(same_machine(machine, other));
}

TEST(Machine, SaysWhatIsWrongWithAFile) {
  const auto path = (std::filesystem::temp_directory_path() / ("ddl-no-machine-" + std::to_string(::getpid()) + ".json")).string();
  const auto code = [&](const std::string& text, const std::string& says = "expected") {
    write_file(path, text);
    try {
      read_machine(path);
    } catch (const Error& error) {
      const std::string said = error.what();
      EXPECT_NE(said.find(path), std::string::npos) << said;
      EXPECT_NE(said.find(says), std::string::npos) << said;
      return error.code();
    }
    ADD_FAILURE() << "taken: " << text;
    return Code::io;
  };
  EXPECT_EQ(code("{", "JSON"), Code::corrupt);
  EXPECT_EQ(code("{}"), Code::corrupt);
  EXPECT_EQ(code("{\"schema\": \"ddlbench.run/1\"}", "got schema 'ddlbench.run/1', expected 'ddlbench.machine/1'"), Code::corrupt);
  EXPECT_EQ(code("{\"schema\": \"ddlbench.machine/2\"}"), Code::unsupported);
  EXPECT_EQ(code("{\"schema\": \"ddlbench.machine/1\"}", "communication; got nothing, expected a list"), Code::corrupt);
  EXPECT_EQ(code("{\"schema\": \"ddlbench.machine/1\", \"communication\": {}}", "communication; got object, expected a list"), Code::corrupt);
  std::filesystem::remove(path);
  EXPECT_THROW(read_machine(path), Error);
}

TEST(Machine, IsKeptWhereItsUserSays) {
  ::setenv("DDLBENCH_MACHINE", "/else/where.json", 1);
  EXPECT_EQ(default_machine_path(), "/else/where.json");
  ::unsetenv("DDLBENCH_MACHINE");
  ::setenv("XDG_CONFIG_HOME", "/config", 1);
  EXPECT_TRUE(default_machine_path().starts_with("/config/ddlbench/machines/"));
  ::unsetenv("XDG_CONFIG_HOME");
}

}  // namespace
}  // namespace ddl
