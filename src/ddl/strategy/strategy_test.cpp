#include <algorithm>

#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/measure/clock.h"
#include "ddl/nn/builtin.h"
#include "ddl/plan/occasion.h"
#include "ddl/plan/peers.h"
#include "ddl/strategy/builtin.h"

namespace ddl {
namespace {

ModelGraph model(const std::string& name) { return builtin_models().at(name).make(parse_spec(name), {1, 28, 28, 10}); }

TEST(AssignBuckets, ClosesABucketOnceItHoldsItsLimit) {
  const std::vector<std::int64_t> bytes{9, 5, 10, 100, 5};
  const auto buckets = assign_buckets(bytes, {4, 3, 2, 1, 0}, 5, 20);
  ASSERT_EQ(buckets.size(), 3U);
  EXPECT_EQ(buckets[0].parameters, (std::vector<int>{4}));
  EXPECT_EQ(buckets[1].parameters, (std::vector<int>{3}));
  EXPECT_EQ(buckets[2].parameters, (std::vector<int>{2, 1, 0}));
  EXPECT_EQ(buckets[1].bytes, 100);
  EXPECT_EQ(buckets[2].bytes, 24);
}

TEST(AssignBuckets, HoldsNothingOfNothing) { EXPECT_TRUE(assign_buckets({}, {}, 1, 1).empty()); }

/// Layers that a stage can be made of.
int layers_of(const ModelGraph& graph) {
  return static_cast<int>(std::count_if(graph.layers.begin(), graph.layers.end(), [](const Layer& layer) { return layer.kind != LayerKind::input; }));
}

// Every strategy, on every network, at several sizes: what it plans is sound, and what it refuses is more stages than layers.
TEST(StrategyConformance, PlansAreSound) {
  auto forms = builtin_strategies().names();
  for (const auto* form : {"pipeline[schedule=gpipe,recompute=always]", "pipeline[schedule=interleaved-1f1b]", "pipeline[schedule=looped-bfs,chunks=3,balance=count]",
                           "local[post=100,momentum=average]", "local[average=gossip]", "local[average=gossip,topology=exponential,every=3]",
                           "parameter-server[async]", "parameter-server[stale=4]"}) forms.emplace_back(form);
  for (const auto& form : forms)
    for (const auto& network : builtin_models().entries()) {
      const auto graph = network.make({network.name, {}}, natural_shape(network.name));
      const auto spec = parse_spec(form);
      for (const int workers : {1, 2, 3, 7, 64, 4096}) {
        if (form == "single" && workers != 1) continue;
        const int chunks = form.find("chunks=3") != std::string::npos ? 3 : form.find("interleaved") != std::string::npos ? 2 : 1;
        if (form.starts_with("data") || form.starts_with("local") || form.starts_with("parameter-server") || form == "single" || workers * chunks <= layers_of(graph)) {
          const auto plan = builtin_strategies().at(spec.name).make({graph, workers, 4096, 4, spec, {}});
          const auto findings = verify(plan, static_cast<int>(graph.parameter_specs().size()));
          EXPECT_TRUE(findings.empty()) << form << " " << network.name << " " << workers << ": " << join(findings, "; ");
          EXPECT_EQ(plan.workers(), workers);
        } else {
          try {
            builtin_strategies().at(spec.name).make({graph, workers, 4096, 4, spec, {}});
            ADD_FAILURE() << form << " " << network.name << " " << workers;
          } catch (const Error& error) {
            EXPECT_NE(std::string(error.what()).find(fmt::format("{}", layers_of(graph))), std::string::npos) << error.what();
          }
        }
      }
    }
}

TEST(Single, RefusesMoreThanOneWorker) {
  const auto graph = model("lenet");
  EXPECT_THROW(single({graph, 2, 32, 4, {"single", {}}, {}}), Error);
}

TEST(DataParallel, FirstBucketIsSmallAndTheOthersReachTheCap) {
  const auto graph = model("resnet18");
  const auto plan = data_parallel({graph, 2, 32, 4, {"data", {}}, {}});
  // fc (20,520 bytes) and the last batch norm are small, so that the first bucket closes at layer4.1.conv2's 9 MiB.
  ASSERT_GE(plan.roles[0].buckets.size(), 2U);
  EXPECT_LT(plan.roles[0].buckets[0].bytes, std::int64_t{10} << 20);
  EXPECT_GE(plan.roles[0].buckets[1].bytes, std::int64_t{25} << 20);
  std::int64_t sum = 0;
  for (const auto& bucket : plan.roles[0].buckets) sum += bucket.bytes;
  EXPECT_EQ(sum, graph.parameters() * 4 + 4);  // and the vote
}

TEST(DataParallel, OverlapDecidesWhenCollectivesStart) {
  const auto graph = model("lenet");
  for (const auto* option : {"on", "off"}) {
    const auto plan = data_parallel({graph, 2, 32, 4, {"data", {{"overlap", option}}}, {}});
    for (const auto& task : plan.roles[0].tasks)
      if (task.kind == TaskKind::collective) {
        EXPECT_EQ(task.waits_for == kNone, std::string(option) == "off");
      }
  }
}

TEST(DataParallel, RefusesOptionsThatDoNotFit) {
  const auto graph = model("lenet");
  for (const auto* bad : {"data[buckt=1MiB]", "data[bucket=25]", "data[bucket=0]", "data[overlap=maybe]"})
    EXPECT_THROW(data_parallel({graph, 2, 32, 4, parse_spec(bad), {}}), Error) << bad;
}

std::vector<std::int64_t> due_in(const Plan& plan, const std::string& label, std::int64_t steps) {
  std::vector<std::int64_t> due;
  for (const auto& task : plan.roles[0].tasks)
    for (std::int64_t step = 0; step < steps; ++step)
      if (task.label == label && is_due(plan, task, step, step + 1 == steps)) due.push_back(step);
  return due;
}

TEST(Local, AveragesInItsStepsAndInTheLast) {
  const auto graph = model("lenet");
  const auto plan = [&](const std::string& form) { return local_sgd({graph, 5, 32, 4, parse_spec(form), {}}); };
  using Steps = std::vector<std::int64_t>;
  EXPECT_EQ(due_in(plan("local[every=4]"), "mean of parameters 0", 10), (Steps{3, 7, 9}));
  EXPECT_EQ(due_in(plan("local[every=4,post=3]"), "mean of parameters 0", 10), (Steps{6, 9}));
  EXPECT_EQ(due_in(plan("local[every=4,post=3]"), "all-reduce 0", 10), (Steps{0, 1, 2}));
  EXPECT_EQ(due_in(plan("local[every=4,post=3]"), "update 0", 3), (Steps{0, 1, 2}));
  // Nothing has gone apart: nothing is to be averaged.
  EXPECT_EQ(due_in(plan("local[every=4,post=10]"), "mean of parameters 0", 10), (Steps{}));
  const auto gossip = plan("local[every=2,average=gossip,topology=exponential]");
  EXPECT_EQ(due_in(gossip, "send parameters 0 0, flip 1", 14), (Steps{1, 7, 13}));
  EXPECT_EQ(due_in(gossip, "send parameters 0 1, flip 2", 14), (Steps{3, 9}));
  EXPECT_EQ(due_in(gossip, "send parameters 0 2, flip 4", 14), (Steps{5, 11}));
  EXPECT_EQ(due_in(gossip, "final mean of parameters 0", 14), (Steps{13}));
}

TEST(Local, MessagesOfGossipMeetThoseOfTheNeighbours) {
  const auto graph = model("lenet");
  const auto plan = local_sgd({graph, 5, 32, 4, parse_spec("local[average=gossip]"), {}});
  const auto find = [&](const std::string& label) {
    const auto& tasks = plan.roles[0].tasks;
    return *std::find_if(tasks.begin(), tasks.end(), [&](const Task& task) { return task.label == label; });
  };
  const auto send = find("send parameters 0 +1"), receive = find("receive parameters 0 +1");
  EXPECT_NE(send.meeting, kNone);
  EXPECT_EQ(send.meeting, receive.meeting);
  EXPECT_EQ(peer_of(plan, 4, send), 0);
  EXPECT_EQ(peer_of(plan, 0, receive), 4);
  EXPECT_NE(send.meeting, find("send parameters 0 -1").meeting);
  // One way alone: nobody receives what is sent.
  auto broken = plan;
  std::erase_if(broken.roles[0].tasks, [](const Task& task) { return task.kind == TaskKind::receive || task.kind == TaskKind::average || task.kind == TaskKind::collective; });
  const auto findings = verify(broken, static_cast<int>(graph.parameter_specs().size()));
  ASSERT_FALSE(findings.empty());
}

TEST(Local, PlansOfThousandsOfWorkersAreCheckedInNoTime) {
  const auto graph = model("resnet18");
  const auto begin = now();
  const auto plan = local_sgd({graph, 4096, 8192, 4, parse_spec("local[average=gossip,topology=exponential,momentum=average]"), {}});
  EXPECT_TRUE(verify(plan, static_cast<int>(graph.parameter_specs().size())).empty());
  EXPECT_LT(seconds(now() - begin), 1.0);
}

TEST(Local, RefusesOptionsThatDoNotFit) {
  const auto graph = model("lenet");
  for (const auto* bad : {"local[every=0]", "local[every=1.5]", "local[post=-1]", "local[average=some]", "local[topology=ring]", "local[average=gossip,topology=star]",
                          "local[momentum=on]", "local[compress=fp16]"})
    EXPECT_THROW(local_sgd({graph, 2, 32, 4, parse_spec(bad), {}}), Error) << bad;
}

TEST(ParameterServerPlan, DividesParametersByBytes) {
  const auto graph = model("resnet18");
  const auto plan = parameter_server({graph, 6, 32, 4, parse_spec("parameter-server[servers=3]"), {}});
  ASSERT_EQ(plan.roles.size(), 4U);
  EXPECT_EQ(plan.roles[3].count, 3);
  std::int64_t sum = 0, most = 0;
  for (const auto& bucket : plan.roles[3].buckets) {
    sum += bucket.bytes;
    most = std::max(most, bucket.bytes);
  }
  EXPECT_EQ(sum, graph.parameters() * 4);
  EXPECT_LE(static_cast<double>(most), 1.05 * static_cast<double>(sum) / 3);
  for (int r = 0; r < 4; ++r) {
    const auto& tasks = plan.roles[static_cast<std::size_t>(r)].tasks;
    EXPECT_EQ(std::count_if(tasks.begin(), tasks.end(), [](const Task& task) { return task.stream == Stream::server; }), r < 3 ? 9 : 0);  // from and to four roles, and an update
    for (const auto& task : tasks)
      EXPECT_EQ(task.meeting != kNone, task.kind == TaskKind::send || task.kind == TaskKind::receive) << task.label;
  }
  auto silent = plan;
  std::erase_if(silent.roles[0].tasks, [](const Task& task) { return task.label == "serve: parameters to worker"; });
  const auto findings = verify(silent, static_cast<int>(graph.parameter_specs().size()));
  ASSERT_FALSE(findings.empty());
  EXPECT_NE(join(findings, "; ").find("deadlock: worker cannot start 'pull 0'"), std::string::npos) << join(findings, "; ");
}

TEST(ParameterServerPlan, OfThousandsOfWorkersIsCheckedInNoTime) {
  const auto graph = model("resnet18");
  const auto begin = now();
  const auto plan = parameter_server({graph, 4096, 8192, 4, parse_spec("parameter-server[servers=4]"), {}});
  EXPECT_TRUE(verify(plan, static_cast<int>(graph.parameter_specs().size())).empty());
  EXPECT_LT(seconds(now() - begin), 1.0);
}

TEST(ParameterServerPlan, RefusesWhatCannotBe) {
  const auto graph = model("lenet");
  for (const auto* bad : {"parameter-server[servers=3]", "parameter-server[servers=0]", "parameter-server[async,stale=2]", "parameter-server[sync,async]", "parameter-server[stale=-1]",
                          "parameter-server[stale=1.5]", "parameter-server[compress=fp16]"})
    EXPECT_THROW(parameter_server({graph, 2, 32, 4, parse_spec(bad), {}}), Error) << bad;
  StrategyInput clips{graph, 2, 32, 4, parse_spec("parameter-server"), {}};
  clips.whole_gradient = true;
  try {
    parameter_server(clips);
    FAIL() << "a server cannot clip by the norm of what others have";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::unsupported);
  }
}

}  // namespace
}  // namespace ddl
