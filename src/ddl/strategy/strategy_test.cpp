#include <algorithm>

#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/nn/builtin.h"
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
  for (const auto* form : {"pipeline[schedule=gpipe,recompute=always]", "pipeline[schedule=interleaved-1f1b]", "pipeline[schedule=looped-bfs,chunks=3,balance=count]"}) forms.emplace_back(form);
  for (const auto& form : forms)
    for (const auto& network : builtin_models().entries()) {
      const auto graph = network.make({network.name, {}}, natural_shape(network.name));
      const auto spec = parse_spec(form);
      for (const int workers : {1, 2, 3, 7, 64, 4096}) {
        if (form == "single" && workers != 1) continue;
        const int chunks = form.find("chunks=3") != std::string::npos ? 3 : form.find("interleaved") != std::string::npos ? 2 : 1;
        if (form.starts_with("data") || form == "single" || workers * chunks <= layers_of(graph)) {
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

}  // namespace
}  // namespace ddl
