#include <algorithm>

#include "ddl/core/error.h"
#include "ddl/measure/ledger.h"
#include "ddl/nn/narrow_networks_testing.h"
#include "ddl/train/trial_testing.h"

// Strategies that split layers among workers, alone and in meshes, train as one worker does.
namespace ddl {
namespace {

using namespace testing;

constexpr const char* kGpt = "gpt[hidden=16,heads=4,layers=2,seq=8,vocab=17,dropout=0.1]";
constexpr const char* kTransformer = "transformer[hidden=16,heads=4,layers=1,dropout=0.1]";

void expect_like_one(Trial trial, const std::vector<std::string>& forms, const std::vector<int>& counts, double tolerance = 1e-12) {
  const auto reference = train_rank(trial, 0, 1, nullptr);
  for (const auto& form : forms)
    for (const int ranks : counts) {
      trial.strategy = form;
      expect_equal(train(trial, ranks), reference, fmt::format("{} {} {}", trial.model, form, ranks), tolerance);
    }
}

// Batches of 6 from 11 samples: the last of each epoch has 5.
TEST(Tensor, EqualsOneWorkerInFp64) {
  for (const auto* model : {kTransformer, kGpt}) {
    Trial trial{model};
    trial.label_smoothing = 0.1;
    expect_like_one(trial, {"tensor", "tensor[sequence=on]", "tensor[split=hidden,recompute=always]", "tensor[split=channels]"}, {2, 4});
  }
  expect_like_one({"mlp"}, {"tensor"}, {2, 3});
  expect_like_one({"lenet"}, {"tensor", "tensor[split=height]", "tensor[split=width+hidden]"}, {2, 3});
}

// Over two axes and three: what lies along each, exchanged among those who agree on the others.
TEST(Tensor, OfSeveralAxesEqualsOneWorkerInFp64) {
  for (const auto* model : {kTransformer, kGpt}) {
    Trial trial{model};
    trial.label_smoothing = 0.1;
    expect_like_one(trial, {"tensor[split=megatron/sequence,mesh=2x2]", "tensor[split=sequence/heads+hidden,mesh=2x2,recompute=always]", "tensor[split=features/hidden+vocabulary,mesh=2x2]"}, {4});
    expect_like_one(trial, {"tensor[split=megatron/sequence,mesh=2x3]", "tensor[split=features/heads+sequence,mesh=3x2]"}, {6});
    expect_like_one(trial, {"tensor[split=sequence/heads/hidden,mesh=2x2x2]"}, {8});
  }
  expect_like_one({"lenet"}, {"tensor[split=height/channels,mesh=2x2]", "tensor[split=channels/height,mesh=2x2]", "tensor[split=height/width,mesh=2x2]"}, {4});
  expect_like_one({"lenet"}, {"tensor[split=height/channels,mesh=2x3]", "tensor[split=width/height,mesh=3x2]"}, {6});
  expect_like_one({"lenet"}, {"tensor[split=height/width/channels,mesh=2x2x2]"}, {8});
  expect_like_one({"mlp"}, {"tensor[split=hidden/features,mesh=3x1]", "tensor[split=hidden/features,mesh=1x3]"}, {3});
}

// One dimension along two axes: parts of parts.
TEST(Tensor, OfADimensionOnTwoAxesEqualsOneWorkerInFp64) {
  for (const auto* model : {kTransformer, kGpt}) expect_like_one({model}, {"tensor[split=megatron/heads+sequence,mesh=2x2]", "tensor[split=hidden+vocabulary/hidden+features,mesh=2x2,recompute=always]"}, {4});
  expect_like_one({"lenet"}, {"tensor[split=height+features/channels+features,mesh=2x2]", "tensor[split=channels/channels,mesh=2x2]"}, {4});
}

// Batch norm of split maps is that of all of them. MobileNetV2, which has 52 one after the other, is in families_test.cpp.
TEST(Tensor, EqualsOneWorkerWithBatchNorm) {
  Trial trial{"resnet", "", 4, 2};
  trial.network = wide_resnet;
  expect_like_one(trial, {"tensor", "tensor[split=height]"}, {2, 3});
  expect_like_one(trial, {"tensor[split=height/channels,mesh=2x2]", "tensor[split=height/width,mesh=2x2]"}, {4});
}

TEST(Tensor, AccumulatesMicroBatches) {
  Trial trial{kGpt};
  trial.accumulate = 4;  // one of them empty at the end of an epoch
  expect_like_one(trial, {"tensor[sequence=on]"}, {2});
}

TEST(Tensor, ClipsByTheNormOfAllPiecesTogether) {
  Trial trial{kGpt};
  trial.clip = 0.05;
  const auto reference = train_rank(trial, 0, 1, nullptr);
  EXPECT_GT(reference.updates.clipped, 0);
  for (const auto* form : {"tensor", "tensor[sequence=on]", "hybrid[pipeline=2,tensor=2]", "hybrid[data=2,sharded=2]", "hybrid[sharded=2,tensor=2]", "hybrid[sharded=2,pipeline=2]",
                           "tensor[split=sequence/megatron,mesh=2x2]", "tensor[split=features/hidden,mesh=2x2]"}) {
    trial.strategy = form;
    const bool pair = std::string_view(form).starts_with("tensor") && std::string_view(form).find("mesh") == std::string_view::npos;
    const auto outcomes = train(trial, pair ? 2 : 4);
    expect_equal(outcomes, reference, form);
    for (const auto& outcome : outcomes) EXPECT_EQ(outcome.updates.clipped, reference.updates.clipped) << form;
  }
}

// LARS and LAMB step by norms of whole parameters, of which each worker has a piece, or the same piece as another, or a part of a piece.
TEST(Tensor, StepsByTheNormsOfAllPiecesTogether) {
  // As in sharded_test.cpp: where gradients are nothing but rounding LAMB makes steps of full size of it.
  for (const auto* optimizer : {"lars", "lars[vectors=on]", "lamb"})
    for (const double clip : {0.0, 0.05}) {
      const bool divides = std::string_view(optimizer) == "lamb";
      Trial trial{divides ? "lenet" : kGpt};
      trial.optimizer = optimizer;
      trial.clip = clip;
      const auto reference = train_rank(trial, 0, 1, nullptr);
      EXPECT_EQ(reference.updates.clipped > 0, clip > 0);
      const auto forms = divides ? std::vector<std::pair<const char*, int>>{{"tensor", 3}, {"tensor[split=height]", 2}, {"tensor[split=height/channels,mesh=2x2]", 4}, {"hybrid[pipeline=2,tensor=2,micro=3]", 4},
                                                                            {"hybrid[sharded=2,tensor=2]", 4}, {"hybrid[pipeline=2,sharded=2,data=2,micro=1]", 8}}
                                 : std::vector<std::pair<const char*, int>>{{"tensor", 4}, {"tensor[sequence=on]", 2}, {"tensor[split=sequence/megatron,mesh=2x2]", 4}, {"hybrid[data=2,pipeline=2,tensor=2]", 8},
                                                                            {"hybrid[sharded=2,tensor=2]", 4}, {"hybrid[pipeline=2,sharded=2]", 4}};
      for (const auto& [form, ranks] : forms) {
        trial.strategy = form;
        const auto outcomes = train(trial, ranks);
        const auto what = fmt::format("{} {} {}", optimizer, form, clip);
        expect_equal(outcomes, reference, what, divides ? 1e-7 : 1e-12);
        for (const auto& outcome : outcomes) EXPECT_EQ(outcome.updates.clipped, reference.updates.clipped) << what;
      }
    }
}

TEST(Tensor, RepeatsBitByBit) {
  for (const auto* form : {"tensor[sequence=on]", "hybrid[data=2,tensor=2]", "tensor[split=megatron/sequence,mesh=2x2]"}) {
    Trial trial{kTransformer, form, 6, 4, at::kFloat};
    const auto first = whole(train(trial, 4), "first");
    EXPECT_TRUE(same_bits(first, whole(train(trial, 4), "second"))) << form;
  }
}

TEST(Tensor, TrainsInMixedPrecision) {
  Trial trial{kGpt, "tensor[sequence=on]", 6, 6, at::kFloat};
  trial.precision = "bf16";
  const auto reference = train_rank(trial, 0, 1, nullptr);
  double loss = 0;
  for (const auto& outcome : train(trial, 2)) loss += outcome.loss;
  EXPECT_NEAR(loss, reference.loss, 0.02 * reference.loss);
}

TEST(Tensor, ALossThatIsNotFiniteEndsAllWorkers) {
  Trial trial{"lenet", "tensor"};
  trial.bright = 3;
  trial.brightness = std::nanf("");
  for (const auto& outcome : testing::run_group("inproc", 2, [&](Communicator& communicator) { train_rank(trial, communicator.rank(), 2, &communicator); }, {Seconds{60}})) {
    ASSERT_TRUE(outcome.has_value());
    EXPECT_NE(std::string(outcome->what()).find("loss is not finite at step"), std::string::npos) << outcome->what();
  }
}

TEST(Hybrid, EqualsOneWorkerInFp64) {
  struct Mesh {
    const char* form;
    int workers;
  };
  const std::vector<Mesh> meshes{{"hybrid[data=2,pipeline=2]", 4},
                                 {"hybrid[data=2,tensor=2]", 4},
                                 {"hybrid[pipeline=2,tensor=2,micro=3]", 4},
                                 {"hybrid[pipeline=2,tensor=2,micro=2,sequence=on,recompute=always]", 4},
                                 {"hybrid[pipeline=2,tensor=2,schedule=zb-h1,micro=2]", 4},
                                 {"hybrid[data=2,pipeline=2,tensor=2,micro=2]", 8},
                                 {"hybrid[data=2,sharded=2]", 4},
                                 {"hybrid[data=2,sharded=2,level=2]", 4},
                                 {"hybrid[data=2,sharded=2,level=1]", 4},
                                 {"hybrid[sharded=2,pipeline=2,micro=2]", 4},
                                 {"hybrid[sharded=2,tensor=2,sequence=on]", 4},
                                 {"hybrid[data=2,sharded=2,tensor=2]", 8},
                                 {"hybrid[data=2,tensor=2x2,split=megatron/sequence]", 8},
                                 {"hybrid[pipeline=2,tensor=2x2,split=sequence/heads+hidden,micro=2,recompute=always]", 8},
                                 {"hybrid[pipeline=2,tensor=2x2,split=features/hidden+vocabulary,schedule=zb-h1,micro=2]", 8},
                                 {"hybrid[sharded=2,tensor=2x2,split=sequence/vocabulary+hidden]", 8}};
  for (const auto* model : {kGpt, kTransformer})
    for (const auto& [form, workers] : meshes) expect_like_one({model, "", 6, 3}, {form}, {workers});
  for (const auto* optimizer : {"adam", "sgd"}) {
    Trial trial{"lenet", "", 6, 3};
    trial.optimizer = optimizer;
    // Adam divides by what is noise where a gradient is nothing.
    trial.rate = std::string_view(optimizer) == "adam" ? 1e-3 : kRate;
    expect_like_one(trial, {"hybrid[data=2,pipeline=2,tensor=2,micro=3]"}, {8});
    expect_like_one(trial, {"hybrid[pipeline=2,tensor=2,sharded=2,micro=3]", "hybrid[pipeline=2,tensor=2x2,split=height/channels,micro=3]", "hybrid[sharded=2,tensor=2x2,split=channels/width]"}, {8});
  }
}

// Tied words are on the first stage and on the last, in pieces.
TEST(Hybrid, TiedPiecesStayTied) {
  Trial trial{kGpt, "hybrid[pipeline=2,tensor=2,micro=2]", 6, 4, at::kFloat};
  whole(train(trial, 4), "tied");  // which compares what several hold
  for (const auto* form : {"hybrid[pipeline=2,tensor=2x2,split=vocabulary/sequence,micro=2]", "hybrid[pipeline=2,tensor=2x2,split=sequence/features,micro=2]"}) {
    trial.strategy = form;
    whole(train(trial, 8), form);
  }
  // Each stage adds up the norms of its own copy, in the same order.
  for (const auto* optimizer : {"lars", "lamb"}) {
    trial.optimizer = optimizer;
    trial.strategy = "hybrid[pipeline=2,tensor=4,micro=2]";
    whole(train(trial, 8), optimizer);
    trial.strategy = "hybrid[pipeline=2,tensor=2,sharded=2,micro=2]";
    whole(train(trial, 8), optimizer);
  }
}

// What parts exchange is in the trace of each, as communication that the same meeting numbers join.
TEST(Tensor, TellsOfExchanges) {
  Trial trial{kGpt, "tensor", 6, 2};
  std::vector<std::size_t> counts;
  for (const auto& outcome : train(trial, 2))
    counts.push_back(static_cast<std::size_t>(std::count_if(outcome.trace.begin(), outcome.trace.end(), [](const Span& span) { return span.stream == Stream::communication && span.meeting > 0; })));
  EXPECT_GT(counts[0], 10U);
  EXPECT_EQ(counts[0], counts[1]);
}

}  // namespace
}  // namespace ddl
