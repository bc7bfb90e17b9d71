#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/nn/builtin.h"
#include "ddl/strategy/builtin.h"

// What a user may try and no strategy does: each answer says what was got, and what would do instead.

namespace ddl {
namespace {

struct Try {
  const char* form;
  int workers;
  const char *got, *expected;  ///< words of the answer
};

/// Of 12 layers and 10 parameters.
ModelGraph lenet() { return builtin_models().at("lenet").make(parse_spec("lenet"), {1, 28, 28, 10}); }

std::string answer(const StrategyInput& input) {
  try {
    builtin_strategies().at(input.spec.name).make(input);
  } catch (const Error& error) {
    return error.what();
  }
  return "it is planned";
}

void expect_of(const std::vector<Try>& tries) {
  const auto graph = lenet();
  for (const auto& [form, workers, got, expected] : tries) {
    const auto said = answer({graph, workers, 64, 4, parse_spec(form), {}});
    const auto of_expected = said.find("expected ");
    EXPECT_NE(said.find(got), std::string::npos) << form << " x " << workers << ": " << said;
    ASSERT_NE(of_expected, std::string::npos) << form << " x " << workers << ": " << said;
    EXPECT_NE(said.find(expected, of_expected), std::string::npos) << form << " x " << workers << ": " << said;
  }
}

TEST(Refusals, OptionsOfOtherStrategiesSayWhose) {
  expect_of({{"single[bucket=1MiB]", 1, "bucket=1MiB with single", "strategy data[bucket=1MiB]"},
             {"data[micro=4]", 2, "micro=4 with data", "--accumulate 4"},
             {"data[recompute=on]", 2, "recompute=on with data", "--recompute"},
             {"data[in-process=mirrored,recompute=on]", 2, "recompute=on", "--recompute"},
             {"data[level=1]", 2, "level=1", "sharded[level=1]"},
             {"data[sharded=2]", 2, "sharded=2", "hybrid[sharded=2]"},
             {"data[every=2]", 2, "every=2", "local[every=2]"},
             {"data[servers=2]", 2, "servers=2", "parameter-server[servers=2]"},
             {"data[schedule=gpipe]", 2, "schedule=gpipe", "pipeline[schedule=gpipe]"},
             {"model[micro=4]", 2, "micro=4", "--accumulate 4"},
             {"model[replicas=2/1]", 3, "replicas=2/1 with model", "pipeline[replicas=2/1]"},
             {"model[schedule=1f1b]", 2, "schedule=1f1b", "pipeline[schedule=1f1b]"},
             {"pipeline[data=2]", 4, "data=2 with pipeline", "hybrid[data=2]"},
             {"pipeline[compress=int8]", 2, "compress=int8 with pipeline", "data[compress=int8]"},
             {"pipeline[collective=ring]", 2, "collective=ring", "--collective ring"},
             {"pipeline[split=height]", 2, "split=height", "tensor[split=height]"},
             {"pipeline[stage=3/9]", 2, "'stage'", "stages"},
             {"pipeline[mesh=2x2]", 4, "mesh=2x2 with pipeline", "tensor[mesh=2x2]"},
             {"tensor[micro=2]", 2, "micro=2 with tensor", "--accumulate 2"},
             {"tensor[overlap=off]", 2, "overlap=off with tensor", "data[overlap=off]"},
             {"sharded[compress=int8]", 2, "compress=int8 with sharded", "data[compress=int8]"},
             {"sharded[first-bucket=1MiB]", 2, "first-bucket=1MiB", "data[first-bucket=1MiB]"},
             {"local[overlap=off]", 2, "overlap=off with local", "data[overlap=off]"},
             {"local[compress=int8]", 2, "compress=int8 with local", "data[compress=int8]"},
             {"parameter-server[compress=int8]", 2, "compress=int8 with parameter-server", "data[compress=int8]"},
             {"parameter-server[collective=ring]", 2, "messages", "no collective"},
             {"parameter-server[bucket=1MiB]", 2, "bucket=1MiB", "data[bucket=1MiB]"}});
}

TEST(Refusals, ValuesSayTheirRange) {
  expect_of({{"single", 2, "got 2", "1, or strategy data"},
             {"data[bucket=0]", 2, "'0'", "25MiB"},
             {"data[bucket=3]", 2, "[data] bucket: ", "MiB"},
             {"data[bucket=-1MiB]", 2, "[data] bucket: ", "0 B to"},
             {"data[first-bucket=0B]", 2, "'0B'", "25MiB"},
             {"data[overlap=maybe]", 2, "'maybe'", "on or off"},
             {"data[in-process=yes]", 2, "'yes'", "off, mirrored, parallel"},
             {"model[stages=0/12]", 2, "'0'", "1 or more"},
             {"model[stages=3/5]", 2, "sum of 8", "12"},
             {"model[balance=tim]", 2, "'tim'", "time"},
             {"model[recompute=on]", 2, "'on'", "never, always"},
             {"pipeline[micro=0]", 2, "'0'", "from 1"},
             {"pipeline[micro=3.5]", 2, "'3.5'", "a whole number from 1"},
             {"pipeline[micro=100]", 2, "micro=100 of a batch of 64", "at most 64"},
             {"pipeline[chunks=0,schedule=looped-bfs]", 2, "'0'", "from 1"},
             {"pipeline[schedule=zb-h2]", 2, "'zb-h2'", "zb-h1"},
             {"pipeline[batch-norm=sync]", 2, "'sync'", "micro, deferred"},
             {"pipeline[replicas=0/3]", 3, "'0/3'", "as 2/1"},
             {"pipeline[balance=cost]", 2, "'cost'", "count flops time memory"},
             {"pipeline[balance=pipedream,bandwidth=8]", 2, "[pipeline] bandwidth: ", "Gbps"},
             {"pipeline[balance=pipedream,bandwidth=0Gbps]", 2, "got 0", "more than 0"},
             {"tensor[split=hieght]", 2, "'hieght'", "height"},
             {"tensor[sequence=maybe]", 2, "'maybe'", "on or off"},
             {"tensor[recompute=except-last]", 2, "'except-last'", "never, always"},
             {"sharded[level=4]", 2, "'4'", "1 to 3"},
             {"sharded[level=1.5]", 2, "'1.5'", "1 to 3"},
             {"sharded[unit=0]", 2, "'0'", "from 1"},
             {"sharded[unit=5x]", 2, "[sharded] unit: ", "MiB"},
             {"sharded[prefetch=65]", 2, "'65'", "0 to 64"},
             {"sharded[recompute=always]", 2, "'always'", "on or off"},
             {"hybrid[pipeline=0]", 4, "'0'", "from 1"},
             {"hybrid[tensor=x]", 4, "'x'", "from 1"},
             {"hybrid[tensor=2x0]", 4, "'2x0'", "from 1"},
             {"tensor[split=height/width,mesh=2*2]", 4, "'2*2'", "as 2x3"},
             {"local[every=0]", 2, "'0'", "from 1"},
             {"local[post=-1]", 2, "'-1'", "from 0"},
             {"local[average=some]", 2, "'some'", "all, gossip"},
             {"local[average=gossip,topology=star]", 3, "'star'", "ring, exponential"},
             {"local[momentum=off]", 2, "'off'", "local, average"},
             {"parameter-server[servers=0]", 2, "'0'", "from 1"},
             {"parameter-server[async=maybe]", 2, "'maybe'", "on or off"},
             {"parameter-server[stale]", 2, "'on'", "from 0"},
             {"parameter-server[stale=1.5]", 2, "'1.5'", "a whole number from 0"}});
}

TEST(Refusals, WorkersAndStagesSayHowMany) {
  expect_of({{"model", 64, "64 workers", "at most 12 workers"},
             {"pipeline", 64, "64 workers", "at most 12 workers"},
             {"pipeline[schedule=zbv]", 7, "7 workers of 2 stages each", "at most 6 workers, or a schedule of one stage a worker, as 1f1b"},
             {"pipeline[schedule=dualpipev]", 7, "7 workers of 2 stages each", "at most 6 workers"},
             {"pipeline[schedule=interleaved-1f1b]", 7, "which are 14 stages", "at most 6 workers"},
             {"pipeline[schedule=zbv]", 64, "which are 128 stages", "at most 6 workers, or a network of 128 layers"},
             {"pipeline[schedule=looped-bfs,chunks=8]", 2, "2 workers of 8 stages", "chunks=6 or fewer"},
             {"pipeline[balance=pipedream,schedule=zbv]", 7, "7 workers of 2 stages", "at most 6 workers"},
             {"pipeline[chunks=2]", 2, "chunks) of 1f1b; got 2", "1, or schedule interleaved-1f1b or looped-bfs"},
             {"pipeline[schedule=interleaved-1f1b,chunks=1]", 2, "got 1", "2 or more"},
             {"pipeline[schedule=zbv,chunks=3]", 2, "got 3", "2"},
             {"pipeline[schedule=interleaved-1f1b,micro=5]", 2, "got 5", "4 or 6"},
             {"pipeline[schedule=pipedream-2bw,micro=2]", 3, "got 2", "3 or more"},
             {"pipeline[stages=6/6,schedule=zbv]", 2, "stages=6/6 has 2 stages", "4"},
             {"model[stages=6/6,balance=time]", 2, "stages=6/6 with balance=time", "one of them"},
             {"pipeline[stages=6/6,balance=flops]", 2, "stages=6/6 with balance=flops", "one of them"},
             {"pipeline[stages=6/6,balance=pipedream]", 2, "stages=6/6 with balance=pipedream", "one of them"},
             {"hybrid[pipeline=2,data=2,stages=6/6,balance=count]", 4, "stages=6/6 with balance=count", "one of them"},
             {"pipeline[stages=3/5/2]", 2, "sum of 10", "12"},
             {"pipeline[replicas=2/2]", 3, "2/2, which are 4", "add up to 3"},
             {"pipeline[replicas=1/3,micro=2]", 4, "3 replicas of stage 1 for 2", "3 micro-batches"},
             {"pipeline[schedule=pipedream,replicas=2/1,micro=3]", 3, "got 3", "a multiple of 2"},
             {"pipeline[balance=pipedream,machines=2/2]", 3, "2/2 with 3 workers", "product is 3"},
             {"pipeline[balance=pipedream,machines=2/2,bandwidth=8Gbps]", 4, "bandwidth=8Gbps of 2 levels", "2 rates"},
             {"tensor[split=heads]", 3, "heads", "channels+height+width"},
             {"tensor[split=height]", 64, "64 parts", "channels"},
             {"tensor[split=height/channels]", 6, "split=height/channels without mesh for 6 workers", "mesh=1x6, 2x3, 3x2, 6x1"},
             {"tensor[split=height/channels,mesh=2x2]", 6, "mesh=2x2 = 4 for 6 workers", "mesh=1x6, 2x3, 3x2, 6x1"},
             {"tensor[split=height,mesh=2]", 3, "mesh=2 = 2 for 3 workers", "mesh=3"},
             {"tensor[split=height/channels,mesh=6]", 6, "mesh of 6 with split=height/channels, which are dimensions of 2", "mesh=1x6, 2x3, 3x2, 6x1"},
             {"tensor[split=height,mesh=2x3]", 6, "mesh of 2x3 with split=height, which are dimensions of 1", "mesh=6, or as many dimensions, as split=height/channels"},
             {"tensor[mesh=2x3]", 6, "mesh of 2x3 with split=channels", "split=height/channels"},
             {"tensor[split=height/heads,mesh=2x3]", 6, "along axis 2; got dimensions heads and 3 parts", "channels+height+width"},
             {"tensor[split=height/width,mesh=2x64]", 128, "along axis 2; got dimensions width and 64 parts", "as large"},
             {"hybrid[pipeline=2,tensor=2x2,split=height]", 8, "tensor of 2x2 with split=height, which are dimensions of 1", "tensor=4"},
             {"hybrid[pipeline=2,tensor=2x2,split=height/channels]", 6, "tensor=2x2 x sharded=1 = 8 for 6 workers", "divides 6"},
             {"hybrid[data=2,pipeline=2]", 3, "= 4 for 3 workers", "divides 3: 1, 3"},
             {"hybrid[pipeline=2,data=3]", 4, "= 6 for 4 workers", "data=2"},
             {"hybrid[sharded=3]", 4, "= 3 for 4 workers", "divides 4: 1, 2, 4"},
             {"hybrid[pipeline=7,schedule=zbv]", 14, "7 places on axis pipeline of 2 stages", "at most 6 places on axis pipeline"},
             {"hybrid[pipeline=2,micro=100]", 4, "micro=100 of a batch of 32", "at most 32"},
             {"parameter-server[servers=3]", 2, "3 servers, 2 workers", "at most 2"},
             {"parameter-server[servers=30]", 40, "30 servers, 40 workers and 10 parameters", "at most 10"}});
}

TEST(Refusals, OptionsThatDoNotGoTogetherSayWhichDo) {
  expect_of({{"data[in-process=parallel,compress=int8]", 2, "threads of one process share memory, and nothing is sent that could be compressed; got compress=int8", "no compress"},
             {"data[in-process=parallel,collective=ring]", 2, "collective=ring", "in-process=mirrored"},
             {"model[balance=pipedream]", 2, "of stages of one worker each", "pipeline[balance=pipedream]"},
             {"pipeline[bandwidth=8Gbps]", 2, "bandwidth=8Gbps", "balance=pipedream"},
             {"pipeline[machines=2]", 2, "machines=2", "balance=pipedream"},
             {"pipeline[balance=pipedream,replicas=2/1]", 3, "replicas=2/1", "time, flops, count or memory"},
             {"pipeline[replicas=2/1,chunks=2]", 3, "chunks=2", "1"},
             {"pipeline[schedule=zbv,replicas=2/1]", 3, "schedule=zbv; got replicas=2/1", "schedule=gpipe, 1f1b, pipedream"},
             {"pipeline[schedule=pipedream,batch-norm=deferred]", 2, "schedule=pipedream with batch-norm=deferred", "batch-norm=micro"},
             {"sharded[level=1,unit=1]", 2, "unit=1 with level=1", "level=3, or no unit"},
             {"sharded[bucket=1MiB]", 2, "bucket=1MiB with level=3 (unless told)", "level=1 or level=2"},
             {"sharded[level=2,reshard=off]", 2, "reshard=off with level=2", "level=3"},
             {"hybrid[pipeline=2,sharded=2,level=3]", 4, "level=3 with pipeline=2,tensor=1,sharded=2", "level=1 or none, or a mesh of data and sharded alone: hybrid[sharded=2,level=3]"},
             {"hybrid[tensor=2,sharded=2,level=2]", 4, "level=2 with pipeline=1,tensor=2", "level=1 or none"},
             {"hybrid[level=3]", 2, "level=3 with sharded=1", "sharded=2 or more"},
             {"hybrid[pipeline=2,unit=1]", 4, "unit=1", "no unit, or neither pipeline nor tensor"},
             {"hybrid[pipeline=2,overlap=off]", 4, "overlap=off", "no overlap, or neither pipeline nor tensor"},
             {"hybrid[pipeline=2,replicas=2/1]", 4, "replicas=2/1", "no replicas, or strategy pipeline"},
             {"hybrid[pipeline=2,machines=2]", 4, "machines=2", "pipeline[balance=pipedream]"},
             {"hybrid[pipeline=2,balance=pipedream]", 4, "balance=pipedream", "time, flops, count or memory"},
             {"tensor[split=height/channels,mesh=2x2,sequence=on]", 4, "sequence=on with split=height/channels", "one of the 2 axes"},
             {"hybrid[sharded=4,mesh=2x2]", 4, "mesh=2x2 with hybrid", "tensor[mesh=2x2]"},
             {"hybrid[pipeline=2,split=height]", 4, "split=height with tensor=1", "tensor=2 or more"},
             {"hybrid[sharded=2,split=height]", 4, "split=height", "tensor=2 or more"},
             {"hybrid[sharded=2,schedule=gpipe]", 4, "schedule=gpipe", "pipeline=2 or more"},
             {"hybrid[pipeline=2,sharded=2,schedule=pipedream]", 4, "schedule=pipedream with sharded=2", "a synchronous schedule"},
             {"hybrid[pipeline=2,tensor=2,batch-norm=deferred]", 4, "batch-norm=deferred", "batch-norm=micro"},
             {"local[topology=ring]", 2, "topology=ring with average=all", "average=gossip"},
             {"parameter-server[async,stale=2]", 2, "async and stale=2", "one of them"},
             {"parameter-server[sync,async]", 2, "sync and async", "one of them"},
             {"parameter-server[sync=off]", 2, "neither async nor stale", "one of them"}});
}

TEST(Refusals, MicroBatchesAreToldOnce) {
  const auto graph = lenet();
  for (const auto* form : {"pipeline[micro=2]", "hybrid[pipeline=2,micro=2]"}) {
    StrategyInput input{graph, 2, 64, 4, parse_spec(form), {}};
    input.micro_batches = 4;
    const auto said = answer(input);
    EXPECT_NE(said.find("got micro=2 with accumulate 4, expected one of them"), std::string::npos) << said;
    input.micro_batches = 2;
    EXPECT_EQ(answer(input), "it is planned");
  }
}

// Beside stages that is what axis sharded does.
TEST(Refusals, LevelOneBesideStagesIsPlanned) {
  const auto graph = lenet();
  EXPECT_EQ(answer({graph, 4, 64, 4, parse_spec("hybrid[pipeline=2,sharded=2,level=1]"), {}}), "it is planned");
}

TEST(Refusals, WhatWantsTheWholeGradientIsNamed) {
  const auto graph = lenet();
  for (const auto* form : {"parameter-server", "pipeline[schedule=pipedream]"}) {
    StrategyInput input{graph, 2, 64, 4, parse_spec(form), {}};
    input.whole_gradient = true;
    input.whole_gradient_word = "clip 1";
    const auto said = answer(input);
    EXPECT_NE(said.find("got clip 1"), std::string::npos) << said;
    EXPECT_NE(said.find("expected clip 0"), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace ddl
