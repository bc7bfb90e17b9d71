#include "ddl/lab/plan_record.h"

#include <gtest/gtest.h>

#include "ddl/lab/record.h"
#include "ddl/nn/model.h"
#include "ddl/strategy/builtin.h"

namespace ddl {
namespace {

Plan plan_of(const Spec& spec, int workers, const ModelGraph& graph) {
  StrategyInput input{graph};
  input.spec = spec;
  input.workers = workers;
  input.batch = 64;
  return builtin_strategies().at(spec.name).make(input);
}

class PlanRecord : public ::testing::Test {
 protected:
  ModelGraph graph = make_model({"lenet", {}}, {1, 28, 28, 10});
};

// What was found is what is explained and predicted; records from before overlap was sought overlap as their strategy does.
TEST_F(PlanRecord, AJobAsItRanExchangesBucketsAsWasFound) {
  const auto as_run = [](const char* strategy, const Json& told) {
    Job job;
    job.strategy = parse_spec(strategy);
    return to_string(job_as_run(job, told).strategy);
  };
  EXPECT_EQ(as_run("data[bucket=auto]", {{"taken", 1000}, {"overlap", false}}), to_string(parse_spec("data[bucket=1000B,overlap=off]")));
  EXPECT_EQ(as_run("data[bucket=auto]", {{"taken", 1000}}), to_string(parse_spec("data[bucket=1000B,overlap=on]")));
  EXPECT_EQ(as_run("data[bucket=auto,in-process=mirrored]", {{"taken", 1000}}), to_string(parse_spec("data[bucket=1000B,in-process=mirrored,overlap=off]")));
  EXPECT_EQ(as_run("data[bucket=25MiB]", nullptr), "data[bucket=25MiB]");
}

TEST_F(PlanRecord, NamesTheTasksOfEveryRole) {
  const Spec spec{"pipeline", {{"schedule", "gpipe"}, {"micro", "4"}}};
  const auto json = plan_json(spec, plan_of(spec, 2, graph), {});
  ASSERT_EQ(json.at("roles").size(), 2U);
  EXPECT_EQ(json.at("micro_batches"), 4);
  EXPECT_EQ(json.at("stages"), 2);
  std::map<std::string, int> kinds;
  for (const auto& task : json.at("roles")[1].at("tasks")) {
    ++kinds[task.at("kind")];
    if (task.at("kind") == "receive") { EXPECT_EQ(task.at("cargo"), "activations"); }
    if (task.at("kind") == "collective") { EXPECT_EQ(task.at("group"), "everyone"); }
  }
  EXPECT_EQ(kinds["forward"], 4);
  EXPECT_EQ(kinds["backward"], 4);
  EXPECT_EQ(kinds["receive"], 4);
  EXPECT_EQ(kinds["send"], 4);
}

TEST_F(PlanRecord, SaysWhoHasWhichLayers) {
  const Spec spec = parse_spec("pipeline[replicas=2/1,micro=4,stages=8/4]");
  const auto plan = plan_of(spec, 3, graph);
  const auto stages = stages_json(graph, plan);
  ASSERT_EQ(stages.size(), 2U);
  EXPECT_EQ(stages[0].at("layers"), 8);
  EXPECT_EQ(stages[0].at("ranks"), Json({0, 1}));
  EXPECT_EQ(stages[1].at("layers"), 4);
  EXPECT_EQ(stages[1].at("ranks"), Json({2}));
  EXPECT_EQ(stages[1].at("first"), graph.layers[static_cast<std::size_t>(plan.stages[1].first)].name);
  EXPECT_TRUE(stages_json(graph, plan_of({"data", {}}, 3, graph)).is_null());
  // Of stages that several workers share no bubble is published.
  EXPECT_TRUE(plan_json(spec, plan, {1, 1, 1}).at("bubble").is_null());
}

TEST_F(PlanRecord, HasTheIdealBubbleOfPipelinesOnly) {
  // (P - 1) / (m + P - 1), and with v chunks (P - 1) / (vm + P - 1).
  const auto ideal = [&](const Spec& spec, int workers) { return plan_json(spec, plan_of(spec, workers, graph), {1, 1, 1}).at("bubble"); };
  EXPECT_NEAR(ideal({"pipeline", {{"schedule", "gpipe"}, {"micro", "4"}}}, 2).at("ideal").get<double>(), 1.0 / 5, 1e-12);
  EXPECT_NEAR(ideal({"pipeline", {{"micro", "4"}}}, 2).at("ideal").get<double>(), 1.0 / 5, 1e-12);
  EXPECT_NEAR(ideal({"pipeline", {{"schedule", "interleaved-1f1b"}, {"micro", "4"}}}, 2).at("ideal").get<double>(), 1.0 / 9, 1e-12);
  EXPECT_NEAR(ideal({"model", {}}, 2).at("ideal").get<double>(), 1.0 / 2, 1e-12);
  EXPECT_TRUE(ideal({"data", {}}, 2).is_null());
}

TEST_F(PlanRecord, HasWhatAWorkerOfEachRoleIsPlannedToHold) {
  const auto plan = plan_of({"pipeline", {{"schedule", "gpipe"}, {"micro", "4"}}}, 2, graph);
  const auto json = plan_json({"pipeline", {}}, plan, {});
  std::int64_t parameters = 0;
  for (std::size_t r = 0; r < plan.roles.size(); ++r) {
    const auto& holds = json.at("roles")[r].at("holds");
    EXPECT_EQ(holds.at("activations"), plan.roles[r].holds.activations);
    parameters += holds.at("parameters").get<std::int64_t>();
  }
  EXPECT_EQ(parameters, 4 * 61'706) << "the two stages have LeNet's parameters between them";
}

}  // namespace
}  // namespace ddl
