#include <algorithm>
#include <ctime>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ddl/core/text.h"
#include "ddl/nn/builtin.h"
#include "ddl/strategy/builtin.h"
#include "ddl/strategy/pipeline/schedules.h"

// Plans of thousands of workers, of every strategy in each of its forms, are written and verified within a second.
namespace ddl {
namespace {

constexpr int kMany = 4096;

struct Large {
  const char* form;
  int workers = kMany;
  const char* network = "resnet18";
  std::int64_t batch = 2 * kMany;
  SampleShape shape = {};  ///< no classes: the network's own
};

/// Stages of thousands of workers want as many layers, parts as many attention heads, words, or rows.
constexpr const char* kDeep = "null[layers=4200]";
constexpr const char* kWide = "gpt[hidden=8192,heads=4096,layers=4,seq=4096,vocab=16384]";
constexpr SampleShape kManyWords{.classes = 16384, .objective = Objective::language, .target_length = 4097};
constexpr SampleShape kManyRows{3, 32768, 224, 10};

/// Fewer than 4,096 stages have the schedules that want a micro-batch for each stage, and so the square of them of tasks: interleaved-1f1b and pipedream-2bw. As meshes
/// they are of 4,096 workers. Stages of thousands are cut by count, and by time, which is as quick.
const std::vector<Large> kLarge{
    {"single", 1},
    {"data"},
    {"data[overlap=off,bucket=1MiB]"},
    {"data[in-process=mirrored]"},
    {"data[in-process=parallel]"},
    {"data[in-process=parallel,overlap=on,recompute=on]"},
    {"sharded[level=1]"},
    {"sharded[level=2]"},
    {"sharded[level=3,unit=1,prefetch=2]", kMany, "resnet101"},
    {"sharded[level=3,reshard=off]", kMany, "gpt"},
    {"local"},
    {"local[post=100,momentum=average]"},
    {"local[average=gossip,momentum=average]"},
    {"local[average=gossip,topology=exponential,momentum=average]"},
    {"parameter-server"},
    {"parameter-server[servers=60]"},
    {"parameter-server[async,servers=4]"},
    {"parameter-server[stale=3,servers=4]"},
    {"tensor", kMany, kWide, 8, kManyWords},
    {"tensor[sequence=on]", kMany, kWide, 8, kManyWords},
    {"tensor[split=channels,recompute=always]", kMany, "alexnet", 8},
    {"tensor[split=height]", kMany, "resnet18", 8, kManyRows},
    {"tensor[split=height/channels,mesh=64x64]", kMany, "resnet18", 8, kManyRows},
    {"tensor[split=height/width,mesh=1024x4]", kMany, "resnet18", 8, kManyRows},
    {"tensor[split=sequence/megatron,mesh=64x64]", kMany, kWide, 8, kManyWords},
    {"hybrid[data=64,pipeline=4,tensor=4x4,split=height/channels]", kMany},
    {"hybrid[data=64,pipeline=8,tensor=4,sharded=2,micro=16]", kMany, "gpt"},
    {"hybrid[tensor=8,split=channels]"},
    {"hybrid[sharded=64]"},
    {"hybrid[sharded=64,level=1]"},
    {"hybrid[pipeline=64,sharded=8]", kMany, "resnet101"},
    {"hybrid[pipeline=8,schedule=gpipe]"},
    {"hybrid[pipeline=8,schedule=1f1b]"},
    {"hybrid[pipeline=8,schedule=interleaved-1f1b,chunks=2]"},
    {"hybrid[pipeline=8,schedule=looped-bfs,chunks=2]"},
    {"hybrid[pipeline=8,schedule=zb-h1]"},
    {"hybrid[pipeline=8,schedule=zbv]"},
    {"hybrid[pipeline=8,schedule=dualpipev]"},
    {"hybrid[pipeline=8,schedule=pipedream]"},
    {"hybrid[pipeline=8,schedule=pipedream-2bw]"},
    {"model[balance=count]", kMany, kDeep},
    {"pipeline[schedule=gpipe,micro=4,balance=count]", kMany, kDeep},
    {"pipeline[schedule=1f1b,micro=4]", kMany, kDeep},
    {"pipeline[schedule=1f1b,micro=4,balance=count,recompute=except-last]", kMany, kDeep},
    {"pipeline[schedule=looped-bfs,micro=2,chunks=2,balance=count]", kMany, kDeep},
    {"pipeline[schedule=zb-h1,micro=4,balance=flops]", kMany, kDeep},
    {"pipeline[schedule=zbv,micro=2,balance=count]", kMany, kDeep},
    {"pipeline[schedule=dualpipev,micro=2,balance=count,batch-norm=deferred]", kMany, kDeep},
    {"pipeline[schedule=pipedream,balance=count]", kMany, kDeep},
    {"pipeline[schedule=interleaved-1f1b,micro=160,chunks=2,balance=count]", 160, kDeep},
    {"pipeline[schedule=pipedream-2bw,micro=224,balance=count]", 224, kDeep},
    {"pipeline[schedule=1f1b,replicas=1024/3072,micro=3072]"},
    {"pipeline[schedule=1f1b,replicas=3000/1096,micro=4096]"},
    {"pipeline[schedule=1f1b,replicas=1024/1024/1024/1023/1,micro=4096]"},
    {"pipeline[schedule=gpipe,replicas=2048/2048,micro=2048]"},
    {"pipeline[schedule=gpipe,replicas=4095/1,micro=4096]"},
    {"pipeline[schedule=pipedream,replicas=2048/2048]"},
    {"pipeline[schedule=pipedream-2bw,replicas=2048/2048]"},
};

TEST(LargePlans, AreWrittenAndVerifiedWithinASecond) {
  for (const auto& [form, workers, network, batch, shape] : kLarge) {
    const auto model = parse_spec(network), spec = parse_spec(form);
    const auto graph = builtin_models().at(model.name).make(model, shape.classes > 0 ? shape : natural_shape(model.name));
    const auto begin = std::clock();  // of the processor, which others use, too
    const auto plan = builtin_strategies().at(spec.name).make({graph, workers, batch, 4, spec, {}});
    const auto findings = verify(plan, static_cast<int>(graph.parameter_specs().size()), std::int64_t{1} << 50);
    EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 1.0) << form;
    EXPECT_TRUE(findings.empty()) << form << ": " << join(findings, "; ").substr(0, 1000);
    EXPECT_EQ(plan.workers(), workers) << form;
  }
}

TEST(LargePlans, AreOfEveryStrategyAndSchedule) {
  const auto has = [](const std::string& strategy, const std::string& schedule) {
    return std::any_of(kLarge.begin(), kLarge.end(), [&](const Large& each) {
      const auto spec = parse_spec(each.form);
      const auto found = spec.options.find("schedule");
      return (strategy.empty() || spec.name == strategy) && (schedule.empty() || (found != spec.options.end() && found->second == schedule)) &&
             (each.workers == kMany || strategy == "single");
    });
  };
  for (const auto& name : builtin_strategies().names()) EXPECT_TRUE(has(name, "")) << name;
  for (const auto& name : builtin_pipeline_schedules().names()) EXPECT_TRUE(has("", name)) << name;
}

}  // namespace
}  // namespace ddl
