#include <algorithm>

#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
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
                           "pipeline[schedule=zb-h1,recompute=except-last]", "pipeline[schedule=zbv]", "pipeline[schedule=dualpipev,batch-norm=deferred]", "sharded[level=1]", "sharded[level=2]",
                           "sharded[unit=1]", "sharded[unit=1MiB,prefetch=2]", "sharded[reshard=off]", "local[post=100,momentum=average]", "local[average=gossip]",
                           "local[average=gossip,topology=exponential,every=3]",
                           "parameter-server[async]", "parameter-server[stale=4]", "data[in-process=mirrored]", "data[in-process=parallel,overlap=on]"})
    forms.emplace_back(form);
  for (const auto& form : forms)
    for (const auto& network : builtin_models().entries()) {
      const auto graph = network.make({network.name, {}}, natural_shape(network.name));
      const auto spec = parse_spec(form);
      for (const int workers : {1, 2, 3, 7, 64, 4096}) {
        if ((form == "single" || form == "tensor") && workers != 1) continue;
        // A role for each thread: at that size one network will do (large_plans_test.cpp).
        if (form.find("parallel") != std::string::npos && workers > 64) continue;
        const int chunks = form.find("chunks=3") != std::string::npos ? 3 : form.find("interleaved") != std::string::npos || form.find("v,") != std::string::npos || form.find("v]") != std::string::npos ? 2 : 1;
        if (form.starts_with("data") || form.starts_with("sharded") || form.starts_with("local") || form.starts_with("parameter-server") || form == "hybrid" || form == "single" || workers * chunks <= layers_of(graph)) {
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

// Of every network, over axes of every kind. What cannot be says which numbers would do.
TEST(StrategyConformance, PlansOfMeshesAreSound) {
  struct Mesh {
    const char* form;
    int workers;
  };
  int sound = 0;
  for (const auto& network : builtin_models().entries()) {
    const auto graph = network.make({network.name, {}}, natural_shape(network.name));
    for (const auto& [form, workers] : std::vector<Mesh>{{"tensor", 2}, {"tensor", 4}, {"tensor[sequence=on]", 3}, {"tensor[split=height]", 2}, {"tensor[recompute=always]", 8},
                                                         {"tensor[split=height/channels,mesh=2x2]", 4}, {"tensor[split=channels/width,mesh=3x2]", 6}, {"tensor[split=megatron/sequence,mesh=2x3]", 6},
                                                         {"hybrid[data=2,pipeline=2,tensor=2x2,split=height/channels]", 16}, {"hybrid[pipeline=2,sharded=2,tensor=2x2,split=sequence/heads+hidden]", 16},
                                                         {"hybrid[data=2,pipeline=2,tensor=2]", 8}, {"hybrid[pipeline=3,tensor=2]", 48}, {"hybrid[tensor=4,split=channels]", 64},
                                                         {"hybrid[pipeline=4,tensor=8,schedule=zb-h1]", 64}, {"hybrid[data=2,sharded=4]", 8}, {"hybrid[sharded=2,level=1]", 6},
                                                         {"hybrid[data=2,pipeline=2,tensor=2,sharded=2]", 16}, {"hybrid[pipeline=2,sharded=3]", 6}, {"hybrid[pipeline=2,tensor=2,schedule=interleaved-1f1b,chunks=2]", 8}}) {
      const auto spec = parse_spec(form);
      try {
        const auto plan = builtin_strategies().at(spec.name).make({graph, workers, 256, 4, spec, {}});
        const auto findings = verify(plan, static_cast<int>(graph.parameter_specs().size()));
        EXPECT_TRUE(findings.empty()) << form << " " << network.name << ": " << join(findings, "; ");
        EXPECT_EQ(plan.workers(), workers);
        ++sound;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::invalid_argument) << error.what();
        EXPECT_NE(std::string(error.what()).find("expected"), std::string::npos) << form << " " << network.name << ": " << error.what();
      }
    }
  }
  EXPECT_GT(sound, 100);
}

TEST(Hybrid, RefusesAMeshThatDoesNotMatchTheWorkersSayingWhatWould) {
  const auto graph = builtin_models().at("gpt").make(parse_spec("gpt"), natural_shape("gpt"));
  const auto message = [&](const char* form, int workers) {
    try {
      hybrid({graph, workers, 64, 4, parse_spec(form), {}});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(message("hybrid[data=3,pipeline=2,tensor=2]", 8).find("= 12 for 8 workers, expected data=2"), std::string::npos) << message("hybrid[data=3,pipeline=2,tensor=2]", 8);
  EXPECT_NE(message("hybrid[pipeline=3]", 8).find("divides 8"), std::string::npos) << message("hybrid[pipeline=3]", 8);
  EXPECT_NE(message("hybrid[pipeline=2,tensor=5]", 10).find("heads"), std::string::npos) << message("hybrid[pipeline=2,tensor=5]", 10);
}

// Their orders are long to write: fewer workers than above, and micro-batches to match.
TEST(Pipeline, PlansWithDividedBackwardAreSound) {
  for (const auto* form : {"pipeline[schedule=zb-h1,recompute=except-last,micro=16]", "pipeline[schedule=zbv,micro=16]", "pipeline[schedule=dualpipev,batch-norm=deferred,micro=16]"})
    for (const auto* network : {"resnet50", "gpt", "transformer"}) {
      const auto graph = builtin_models().at(network).make({network, {}}, natural_shape(network));
      for (const int workers : {1, 2, 3, 7, 16}) {
        const auto plan = pipeline({graph, workers, 64, 4, parse_spec(form), {}});
        const auto findings = verify(plan, static_cast<int>(graph.parameter_specs().size()));
        EXPECT_TRUE(findings.empty()) << form << " " << network << " " << workers << ": " << join(findings, "; ");
      }
    }
}

// The two parts of backward do together what it does whole; where nothing that was given learns, the second does it all.
TEST(Pipeline, DividesTheWorkOfBackward) {
  const auto graph = model("resnet18");
  for (const auto* again : {"never", "always", "except-last"}) {
    const auto plan = [&](const char* schedule) {
      StrategyInput input{graph, 3, 12, 4, parse_spec(fmt::format("pipeline[schedule={},micro=6,recompute={}]", schedule, again)), {}};
      return pipeline(input);
    };
    const auto whole = plan("1f1b"), split = plan("zb-h1");
    ASSERT_EQ(whole.stages.size(), split.stages.size());
    for (std::size_t r = 0; r < split.roles.size(); ++r) {
      const auto flops = [&](const Plan& of, TaskKind kind) {
        double sum = 0;
        for (const auto& task : of.roles[r].tasks) sum += task.kind == kind ? task.flops : 0;
        return sum;
      };
      EXPECT_EQ(flops(split, TaskKind::backward), 0);
      EXPECT_EQ(flops(split, TaskKind::forward), flops(whole, TaskKind::forward));
      EXPECT_EQ(flops(split, TaskKind::backward_input) + flops(split, TaskKind::backward_weight), flops(whole, TaskKind::backward)) << again << " " << r;
      EXPECT_EQ(flops(split, TaskKind::backward_input) == 0, r == 0);
      if (r > 0) {
        EXPECT_EQ(flops(split, TaskKind::backward_weight), flops(split, TaskKind::forward));
      }
    }
  }
}

// What a job asks of all strategies is what each has a word for, and that word wins.
TEST(StrategyConformance, RecomputationIsEachStrategysOwnWord) {
  const auto graph = model("resnet18");
  const auto again = [&](const std::string& form, bool asked) {
    const auto spec = parse_spec(form);
    StrategyInput input{graph, 4, 16, 4, spec, {}};
    input.recompute = asked;
    std::vector<std::string> labels;
    for (const auto& role : builtin_strategies().at(spec.name).make(input).roles)
      for (const auto& task : role.tasks)
        if (task.recompute) labels.push_back(fmt::format("{}: {}", role.name, task.label));
    return labels;
  };
  struct Words {
    const char *form, *on, *off;
  };
  for (const auto& words : std::vector<Words>{{"pipeline[schedule=1f1b{}]", ",recompute=always", ",recompute=never"},
                                              {"model[balance=time{}]", ",recompute=always", ",recompute=never"},
                                              {"tensor[split=channels{}]", ",recompute=always", ",recompute=never"},
                                              {"hybrid[pipeline=2{}]", ",recompute=always", ",recompute=never"},
                                              {"hybrid[sharded=2{}]", ",recompute=on", ",recompute=off"},
                                              {"sharded[level=3{}]", ",recompute=on", ",recompute=off"},
                                              {"data[in-process=parallel{}]", ",recompute=on", ",recompute=off"}}) {
    const auto with = [&](const char* word) { return fmt::format(fmt::runtime(words.form), word); };
    EXPECT_FALSE(again(with(words.on), false).empty()) << words.form;
    EXPECT_EQ(again(with(""), true), again(with(words.on), false)) << words.form;
    EXPECT_TRUE(again(with(""), false).empty()) << words.form;
    EXPECT_TRUE(again(with(words.off), true).empty()) << words.form;
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

Plan shards(const ModelGraph& graph, const std::string& spec, int workers, int micro_batches = 1) {
  StrategyInput input{graph, workers, 4096, 4, parse_spec(spec)};
  input.optimizer_tensors = 2;
  input.micro_batches = micro_batches;
  input.whole_gradient = true;
  return sharded(input);
}

// ZeRO's figure 1: what each level keeps in parts falls with the workers, what it keeps whole does not.
TEST(Sharded, MemoryFallsWithWorkers) {
  const auto graph = model("resnet50");
  const std::int64_t all = graph.parameters() * 4;
  const auto own = [](const Plan& plan) { return plan.roles[0].holds; };
  for (const int workers : {2, 16, 256, 4096}) {
    const auto one = own(shards(graph, "sharded[level=1]", workers)), two = own(shards(graph, "sharded[level=2]", workers)), three = own(shards(graph, "sharded", workers));
    const double slack = 4.0 * 4 * static_cast<double>(graph.parameter_specs().size());  // parts are rounded up, in each bucket
    for (const auto& holds : {one, two, three}) EXPECT_NEAR(static_cast<double>(holds.optimizer), 2.0 * static_cast<double>(all) / workers, 2 * slack);
    EXPECT_EQ(one.parameters, all);
    EXPECT_EQ(two.parameters, all);
    EXPECT_EQ(one.buckets, all);
    EXPECT_LT(two.buckets, 70 << 20);
    // Its part, and two units of a sixteenth or of the largest layer.
    EXPECT_NEAR(static_cast<double>(three.parameters), static_cast<double>(all) / workers + static_cast<double>(own(shards(graph, "sharded", 4096)).parameters), slack + 1e5);
    EXPECT_LT(three.buckets, all / 4);
  }
  EXPECT_LT(own(shards(graph, "sharded", 4096)).parameters, all / 4);
}

TEST(Sharded, GathersAheadAndReleasesBehind) {
  const auto graph = model("resnet18");
  for (const int prefetch : {0, 1, 3})
    for (const int micro_batches : {1, 2}) {
      const auto plan = shards(graph, fmt::format("sharded[unit=1,prefetch={}]", prefetch), 4, micro_batches);
      const auto& tasks = plan.roles[0].tasks;
      int gathered = 0, released = 0;
      for (const auto& task : tasks) {
        gathered += task.cargo == Cargo::parameters ? 1 : 0;
        released += task.kind == TaskKind::release ? 1 : 0;
        EXPECT_LE(gathered - released, prefetch + 1);
      }
      // Each unit forward and backward, but the last one's backward and the next micro-batch's first forward use what is there.
      const int units = static_cast<int>(plan.roles[0].buckets.size());
      EXPECT_EQ(gathered, micro_batches * (2 * units - 1) - (micro_batches - 1));
      EXPECT_EQ(gathered, released);
    }
  const auto kept = shards(graph, "sharded[unit=1,reshard=off]", 4, 3);
  EXPECT_EQ(std::count_if(kept.roles[0].tasks.begin(), kept.roles[0].tasks.end(), [](const Task& task) { return task.cargo == Cargo::parameters; }),
            static_cast<std::ptrdiff_t>(kept.roles[0].buckets.size()));
}

TEST(Sharded, UnitsAreOfAboutEqualBytes) {
  for (const auto* name : {"resnet50", "vgg16", "transformer", "gpt"}) {
    const auto graph = builtin_models().at(name).make({name, {}}, natural_shape(name));
    const auto plan = shards(graph, "sharded", 4);
    std::int64_t largest = 0, all = 0;
    for (const auto& spec : graph.parameter_specs()) {
      all += spec.elements() * 4;
      largest = std::max(largest, spec.elements() * 4);
    }
    int units = 0;
    for (const auto& bucket : plan.roles[0].buckets) {
      if (bucket.stage == kNone) continue;
      ++units;
      EXPECT_LE(bucket.bytes, std::max(all / 16, largest + (std::int64_t{1} << 16))) << name << " " << bucket.stage;
    }
    EXPECT_GE(units, 5) << name;  // of VGG-16, three quarters are one layer
  }
}

TEST(Sharded, WhatSeveralUnitsUseIsGatheredOnce) {
  const auto graph = builtin_models().at("gpt").make({"gpt", {}}, natural_shape("gpt"));
  const auto plan = shards(graph, "sharded", 4, 2);
  const auto tied = std::find_if(plan.roles[0].buckets.begin(), plan.roles[0].buckets.end(), [](const Bucket& bucket) { return bucket.stage == kNone; });
  ASSERT_NE(tied, plan.roles[0].buckets.end());
  const int number = static_cast<int>(tied - plan.roles[0].buckets.begin());
  EXPECT_EQ(tied->parameters.size(), 1U);
  for (const auto goal : {Goal::all_gather, Goal::reduce_scatter})
    EXPECT_EQ(std::count_if(plan.roles[0].tasks.begin(), plan.roles[0].tasks.end(), [&](const Task& task) { return task.bucket == number && task.kind == TaskKind::collective && task.goal == goal; }), 1);
}

TEST(Sharded, RefusesOptionsThatDoNotFit) {
  const auto graph = model("lenet");
  const std::vector<std::pair<const char*, const char*>> bad{{"sharded[level=4]", "1 to 3"},      {"sharded[level=1.5]", "1 to 3"},        {"sharded[bucket=1MiB]", "level=1 or level=2"},
                                                             {"sharded[level=2,unit=1]", "level=3"}, {"sharded[unit=0]", "1"},              {"sharded[unit=0MiB]", "25MiB"},
                                                             {"sharded[prefetch=-1]", "0"},       {"sharded[level=1,reshard=off]", "level=3"}, {"sharded[overlap=off]", "level=1"},
                                                             {"sharded[levle=1]", "levle"}};
  for (const auto& [spec, expected] : bad) try {
      shards(graph, spec, 2);
      ADD_FAILURE() << spec;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_argument);
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
    }
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

TEST(InProcess, OneWorkerHasTheBatchAndTheUpdates) {
  const auto graph = model("lenet");
  StrategyInput input{graph, 3, 12, 4, parse_spec("data[in-process=parallel]"), {}};
  input.micro_batches = 2;
  input.optimizer_tensors = 2;
  const auto plan = data_parallel(input);
  EXPECT_TRUE(plan.in_process);
  EXPECT_EQ(plan.shares(), 1);
  ASSERT_EQ(plan.roles.size(), 3U);
  const auto count = [&](const Role& role, TaskKind kind, Cargo cargo) {
    return std::count_if(role.tasks.begin(), role.tasks.end(), [&](const Task& task) { return task.kind == kind && task.cargo == cargo; });
  };
  const auto& first = plan.roles[0];
  EXPECT_EQ(count(first, TaskKind::send, Cargo::inputs), 2 * 2);
  EXPECT_EQ(count(first, TaskKind::receive, Cargo::activations), 2 * 2);
  EXPECT_EQ(count(first, TaskKind::send, Cargo::activation_gradients), 2 * 2);
  EXPECT_EQ(count(first, TaskKind::forward, Cargo::none), 2 * (1 + 3));
  EXPECT_EQ(count(first, TaskKind::update, Cargo::none), static_cast<std::ptrdiff_t>(first.buckets.size()));
  EXPECT_EQ(first.holds.optimizer, 2 * first.holds.parameters);
  for (const auto& role : plan.roles) {
    std::int64_t replicated = 0, reduced = 0;
    for (const auto& task : role.tasks) {
      if (task.kind == TaskKind::collective && task.cargo == Cargo::parameters) replicated += task.bytes;
      if (task.kind == TaskKind::collective && task.cargo == Cargo::gradients) reduced += task.bytes;
      if (task.cargo == Cargo::inputs) {
        EXPECT_EQ(task.bytes, 2 * 28 * 28 * 4) << "images of two samples";
      }
      if (task.cargo == Cargo::activations) {
        EXPECT_EQ(task.bytes, 2 * 10 * 4) << "logits of two samples";
      }
    }
    EXPECT_EQ(replicated, graph.parameters() * 4);  // once a step, however many micro-batches
    EXPECT_EQ(reduced, graph.parameters() * 4);
    if (&role == &first) continue;
    EXPECT_EQ(count(role, TaskKind::update, Cargo::none), 0);
    EXPECT_EQ(role.holds.optimizer, 0);
  }
}

TEST(InProcess, MirroredIsDataParallelismThatReducesAfterBackward) {
  const auto graph = model("lenet");
  const auto plan = data_parallel({graph, 3, 12, 4, parse_spec("data[in-process=mirrored]"), {}}), other = data_parallel({graph, 3, 12, 4, parse_spec("data[overlap=off]"), {}});
  EXPECT_TRUE(plan.in_process);
  EXPECT_FALSE(other.in_process);
  ASSERT_EQ(plan.roles[0].tasks.size(), other.roles[0].tasks.size());
  for (std::size_t i = 0; i < plan.roles[0].tasks.size(); ++i) {
    EXPECT_EQ(plan.roles[0].tasks[i].label, other.roles[0].tasks[i].label);
    EXPECT_EQ(plan.roles[0].tasks[i].after, other.roles[0].tasks[i].after);
    EXPECT_EQ(plan.roles[0].tasks[i].waits_for, other.roles[0].tasks[i].waits_for);
  }
}

TEST(InProcess, RefusesWhatItDoesNotHave) {
  const auto graph = model("lenet");
  for (const auto* bad : {"data[in-process=yes]", "data[in-process=parallel,collective=ring]", "data[in-process=parallel,compress=fp16]", "data[in-process=mirrored,recompute=on]"})
    EXPECT_THROW(data_parallel({graph, 2, 32, 4, parse_spec(bad), {}}), Error) << bad;
}

}  // namespace
}  // namespace ddl
