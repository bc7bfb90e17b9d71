#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/nn/builtin.h"
#include "ddl/strategy/builtin.h"
#include "ddl/strategy/pipeline/common.h"
#include "ddl/strategy/pipeline/steps.h"
#include "ddl/strategy/pipeline/timing.h"

// Stages of several workers each, which take micro-batches in turn.
namespace ddl {
namespace {

ModelGraph network(const std::string& name) { return builtin_models().at(name).make({name, {}}, natural_shape(name)); }

Plan plan_of(const ModelGraph& graph, const std::string& form, int workers, std::int64_t batch = 64) { return pipeline({graph, workers, batch, 4, parse_spec(form), {}}); }

std::string findings(const ModelGraph& graph, const Plan& plan) { return join(verify(plan, static_cast<int>(graph.parameter_specs().size())), "; "); }

const std::vector<std::vector<int>> kReplicas{{1, 1, 1}, {2, 1}, {1, 2}, {3, 2}, {2, 3, 1}, {1, 4, 2, 3}, {5}, {1, 3, 1}, {7, 4, 8, 4, 1}};

TEST(ReplicatedOrders, DoEachMicroBatchOnceAndEnd) {
  for (const auto& schedule : {gpipe(), one_forward_one_backward()})
    for (const auto& replicas : kReplicas)
      for (const int micro_batches : {8, 9, 12, 25}) {
        const auto order = schedule.replicated(replicas, micro_batches);
        EXPECT_EQ(join(verify(order, micro_batches), "; "), "");
        EXPECT_EQ(order.workers(), std::accumulate(replicas.begin(), replicas.end(), 0));
        EXPECT_NO_THROW(time_pipeline(order, uniform_costs(order.stages(), {}, 0.1)));
      }
}

TEST(ReplicatedOrders, OfOneWorkerAStageAreTheScheduleItself) {
  for (const auto& schedule : {gpipe(), one_forward_one_backward()})
    for (const int micro_batches : {2, 4, 9}) {
      auto order = schedule.replicated({1, 1, 1}, micro_batches);
      order.replicas.clear();
      EXPECT_EQ(order, schedule.order({3, micro_batches}));
    }
}

// Where a stage of R workers takes R times as long, nobody waits once the pipeline is full: a step of many micro-batches takes one unit for each, and what
// fills and empties the pipeline. No stage holds more than that needs.
TEST(ReplicatedOrders, KeepAllWorkersOfBalancedStagesBusy) {
  auto cases = kReplicas;
  std::mt19937 draw(1);
  for (int i = 0; i < 300; ++i)
    for (auto& replicas = cases.emplace_back(1 + draw() % 5); int& workers : replicas) workers = static_cast<int>(1 + draw() % 8);
  for (const auto& replicas : cases) {
    constexpr int kMicroBatches = 120;
    const auto order = one_forward_one_backward().replicated(replicas, kMicroBatches);
    PipelineCosts costs;
    double through = 0;
    for (const int workers : replicas) {
      costs.of_stage.push_back({1.0 * workers, 1.0 * workers, 1.0 * workers});
      through += 3.0 * workers;
    }
    const auto timing = time_pipeline(order, costs);
    EXPECT_LE(timing.makespan_seconds, 3.0 * kMicroBatches + through) << fmt::format("{}", fmt::join(replicas, "/"));
    for (int stage = 0; stage < order.stages(); ++stage) {
      const int own = replicas[static_cast<std::size_t>(stage)];
      int together = own;
      for (std::size_t later = static_cast<std::size_t>(stage) + 1; later < replicas.size(); ++later) together += 2 * replicas[later] - 1;
      EXPECT_EQ(most_in_flight(order, stage), (together + own - 1) / own);
    }
  }
}

const std::vector<std::pair<const char*, PipelineSchedule>> kAsynchronous{{"pipedream", pipedream()}, {"pipedream-2bw", pipedream_2bw()}};

// All steps as one batch they are 1F1B's: nothing but the flush is left out.
TEST(ReplicatedOrders, OfAsynchronousSchedulesAre1F1BWithoutTheFlush) {
  for (const auto& [name, schedule] : kAsynchronous)
    for (const std::vector<int>& replicas : {std::vector{1, 1, 1}, {2, 1}, {1, 2}, {2, 2, 1}, {1, 3, 1}, {4, 2}})
      for (const int steps : {1, 2, 5}) {
        const auto order = schedule.replicated(replicas, 12);
        EXPECT_EQ(unroll(order, 12, steps), one_forward_one_backward().replicated(replicas, 12 * steps)) << name;
      }
}

TEST(ReplicatedOrders, OfOneWorkerAStageAreTheAsynchronousScheduleItself) {
  for (const auto& [name, schedule] : kAsynchronous) {
    const int micro_batches = std::string(name) == "pipedream" ? 1 : 4;
    auto order = schedule.replicated({1, 1, 1}, micro_batches);
    order.replicas.clear();
    EXPECT_EQ(order, schedule.order({3, micro_batches}));
  }
}

// A batch is computed with one version of a worker's weights, the newest that all of its micro-batches can have; all workers of a stage with the same.
TEST(ReplicatedOrders, OfAsynchronousSchedulesAreAsOldAsTheySay) {
  for (const auto& [name, schedule] : kAsynchronous)
    for (const std::vector<int>& replicas : {std::vector{2, 1}, {1, 2}, {3, 1}, {2, 2, 1}, {1, 3, 1}}) {
      const int micro_batches = 12, steps = 8;
      const auto order = schedule.replicated(replicas, micro_batches);
      const auto whole = unroll(order, micro_batches, steps);
      for (int stage = 0; stage < order.stages(); ++stage)
        for (int replica = 0; replica < order.replicas_of(stage); ++replica) {
          const int worker = order.worker_of_stage[static_cast<std::size_t>(stage)] + replica;
          const int own = micro_batches / order.replicas_of(stage);
          EXPECT_EQ(schedule.staleness(order, worker), schedule.staleness(order, order.worker_of_stage[static_cast<std::size_t>(stage)]));
          int backwards = 0, oldest = 0;
          for (const Action& action : whole.actions[static_cast<std::size_t>(worker)]) {
            if (is_forward(action.pass)) oldest = std::max(oldest, action.micro_batch / micro_batches - backwards / own);
            backwards += finishes(action.pass) ? 1 : 0;
          }
          if (std::string(name) == "pipedream") {
            EXPECT_EQ(schedule.staleness(order, worker), oldest);
          } else {
            EXPECT_EQ(schedule.staleness(order, worker), 1);
            EXPECT_LE(oldest, 1);
          }
        }
    }
}

TEST(ReplicatedOrders, PipeDreamsNumberInFlightIsTooFew) {
  const std::vector<int> replicas{1, 3, 1};
  const auto few = in_rounds(replicas, 120, [&](int stage) {
    const auto own = replicas.begin() + stage;
    return (std::accumulate(own, replicas.end(), 0) - 1) / *own;
  });
  const PipelineCosts costs{{{1, 1, 1}, {3, 3, 3}, {1, 1, 1}}};
  EXPECT_GT(time_pipeline(few, costs).makespan_seconds, 1.5 * time_pipeline(one_forward_one_backward().replicated(replicas, 120), costs).makespan_seconds);
}

TEST(ReplicatedOrders, OfAsynchronousSchedulesWantMicroBatchesThatGoRound) {
  const auto refused = [](const PipelineSchedule& schedule, const std::vector<int>& replicas, int micro_batches, const std::string& expected) {
    try {
      schedule.replicated(replicas, micro_batches);
      ADD_FAILURE() << expected;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
    }
  };
  refused(pipedream(), {2, 3}, 4, "got 4 for stages of 2/3 workers, expected a multiple of 6");
  refused(pipedream_2bw(), {1, 3, 1}, 3, "got 3, expected 6 or more");
  refused(pipedream_2bw(), {1, 3, 1}, 7, "expected a multiple of 3");
}

TEST(ReplicatedOrders, RefuseMoreReplicasThanMicroBatches) {
  try {
    one_forward_one_backward().replicated({1, 3}, 2);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("3 replicas of stage 1 for 2 micro-batches, expected 1 to 2 replicas, or 3 micro-batches"), std::string::npos) << error.what();
  }
}

// Tied weights (gpt, transformer), shortcuts that cross stages (resnet50), an auxiliary head (inceptionv3).
TEST(ReplicatedStages, PlansAreSound) {
  for (const auto* name : {"resnet50", "gpt", "transformer", "inceptionv3", "alexnet"}) {
    const auto graph = network(name);
    for (const auto* form : {"replicas=2/1", "replicas=1/2", "replicas=2/3/2", "replicas=1/1/5", "replicas=6", "schedule=gpipe,replicas=3/2", "replicas=2/2,recompute=except-last",
                             "replicas=3/1,balance=memory", "replicas=2/1,balance=count,batch-norm=deferred", "schedule=pipedream,replicas=2/1", "schedule=pipedream,replicas=1/3/1",
                             "schedule=pipedream,replicas=2/3,micro=6", "schedule=pipedream-2bw,replicas=2/2", "schedule=pipedream,replicas=3"}) {
      const bool ties = std::string_view(name) == "gpt" || std::string_view(name) == "transformer";
      if (ties && std::string_view(form).find("pipedream") != std::string_view::npos) continue;  // refused: AsynchronousPipeline.RefusesSharedWeightsAndTheWholeGradient
      int workers = 0;
      for (const char* c = std::string_view(form).data() + std::string_view(form).find("replicas=") + 9; *c != ',' && *c != 0; ++c) workers += *c == '/' ? 0 : *c - '0';
      const auto plan = plan_of(graph, fmt::format("pipeline[{}]", form), workers);
      EXPECT_EQ(findings(graph, plan), "") << form << " " << name;
      EXPECT_EQ(plan.workers(), workers);
      EXPECT_EQ(plan.shares(), 1);
    }
  }
}

TEST(ReplicatedStages, EachTakesItsTurn) {
  const auto graph = network("resnet18");
  const auto plan = plan_of(graph, "pipeline[replicas=2/1,micro=5]", 3);
  ASSERT_EQ(plan.roles.size(), 3U);
  EXPECT_EQ(plan.roles[1].name, "stage 0, replica 1");
  const auto done = [&](int role, TaskKind kind) {
    std::set<int> numbers;
    for (const auto& task : plan.roles[static_cast<std::size_t>(role)].tasks)
      if (task.kind == kind) numbers.insert(task.micro_batch);
    return numbers;
  };
  EXPECT_EQ(done(0, TaskKind::forward), (std::set<int>{0, 2, 4}));
  EXPECT_EQ(done(1, TaskKind::backward), (std::set<int>{1, 3}));
  EXPECT_EQ(done(2, TaskKind::backward), (std::set<int>{0, 1, 2, 3, 4}));
  // Replicas add up their gradients, the stage that is alone does not.
  for (const int role : {0, 1}) {
    std::size_t reduced = 0;
    for (const auto& bucket : plan.roles[static_cast<std::size_t>(role)].buckets) reduced += bucket.parameters.size();
    EXPECT_EQ(reduced, plan.stages[0].parameters.size());
  }
  EXPECT_TRUE(plan.roles[2].buckets.empty());
}

TEST(ReplicatedStages, AreCutByWhatEachWorkerDoes) {
  const auto graph = network("resnet50");
  const auto flops = [&](const Plan& plan, std::size_t stage) {
    double sum = 0;
    for (int layer = plan.stages[stage].first; layer < plan.stages[stage].last; ++layer) sum += static_cast<double>(graph.layers[static_cast<std::size_t>(layer)].flops);
    return sum;
  };
  const auto plan = plan_of(graph, "pipeline[replicas=3/1,balance=flops,micro=12]", 4);
  EXPECT_NEAR(flops(plan, 0) / flops(plan, 1), 3, 0.6);
  const auto other = plan_of(graph, "pipeline[replicas=1/3,balance=flops,micro=12]", 4);
  EXPECT_NEAR(flops(other, 1) / flops(other, 0), 3, 0.6);
}

// All parameters of VGG are in its last layers, all work in the first: PipeDream's own example (SOSP 2019, table 1).
TEST(ReplicatedStages, PipeDreamReplicatesWhatComputesAndNotWhatIsLarge) {
  const auto graph = network("vgg16");
  const auto plan = plan_of(graph, "pipeline[balance=pipedream,bandwidth=20Mbps,micro=16]", 4);
  EXPECT_EQ(findings(graph, plan), "");
  ASSERT_EQ(plan.stages.size(), 2U);
  EXPECT_EQ(plan.roles[2].name, "stage 0, replica 2");
  EXPECT_EQ(plan.roles[3].name, "stage 1");
  // Where exchange costs nothing, replicas of everything are best; two machines with little between them are a stage each.
  EXPECT_EQ(plan_of(graph, "pipeline[balance=pipedream,bandwidth=100000Gbps,micro=16]", 4).stages.size(), 1U);
  const auto apart = plan_of(graph, "pipeline[balance=pipedream,machines=2/2,bandwidth=100000Gbps/1Mbps,micro=16]", 4);
  EXPECT_EQ(findings(graph, apart), "");
  EXPECT_EQ(apart.stages.size(), 2U);
}

TEST(ReplicatedStages, OfPipeDreamsOwnScheduleAreFoundToo) {
  const auto graph = network("vgg16");
  const auto plan = plan_of(graph, "pipeline[schedule=pipedream,balance=pipedream,bandwidth=20Mbps]", 4);
  EXPECT_EQ(findings(graph, plan), "");
  ASSERT_EQ(plan.stages.size(), 2U);
  EXPECT_EQ(plan.roles[2].name, "stage 0, replica 2");
  EXPECT_EQ(plan.micro_batches % 3, 0) << "three workers share them alike";
  EXPECT_EQ(plan.roles[3].staleness, 0);
  EXPECT_GT(plan.roles[0].staleness, 0);
  EXPECT_EQ(plan.roles[0].staleness, plan.roles[2].staleness);
  // Orders of more stages a worker have one worker a stage.
  EXPECT_EQ(plan_of(network("alexnet"), "pipeline[schedule=zb-h1,balance=pipedream]", 3).stages.size(), 3U);
}

// Of the processor's time: others may use it, too.
TEST(ReplicatedStages, RefuseNumbersThatDoNotGoTogether) {
  const auto graph = network("lenet");
  const std::vector<std::pair<const char*, const char*>> bad{
      {"pipeline[replicas=2/2]", "expected 4 workers or numbers that add up to 3"},
      {"pipeline[replicas=2/x]", "as 2/1"},
      {"pipeline[replicas=3/0]", "1 or more"},
      {"pipeline[replicas=2/1,micro=1]", "2 micro-batches"},
      {"pipeline[replicas=2/1,schedule=zbv]", "gpipe, 1f1b, pipedream or pipedream-2bw"},
      {"pipeline[replicas=2/1,schedule=pipedream,micro=3]", "multiple of 2"},
      {"pipeline[replicas=2/1,stages=3/3/6]", "stages=3/3/6 has 3 stages; expected 2"},
      {"pipeline[replicas=2/1,balance=pipedream]", "expected balance=time, flops, count or memory"},
      {"pipeline[bandwidth=1Gbps]", "expected balance=pipedream"},
      {"pipeline[balance=pipedream,machines=2/2]", "product is 3"},
      {"pipeline[balance=pipedream,machines=3,bandwidth=1Gbps/1Gbps]", "expected 1 rates"},
      {"pipeline[balance=pipedream,bandwidth=0]", "more than 0"}};
  for (const auto& [form, expected] : bad) try {
      plan_of(graph, form, 3);
      ADD_FAILURE() << form;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << form << ": " << error.what();
    }
  EXPECT_THROW(model_parallel({graph, 2, 8, 4, parse_spec("model[balance=pipedream]"), {}}), Error);
}

}  // namespace
}  // namespace ddl
