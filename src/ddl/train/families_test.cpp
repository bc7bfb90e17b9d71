#include <algorithm>
#include <map>
#include <utility>

#include "ddl/core/error.h"
#include "ddl/nn/narrow_networks_testing.h"
#include "ddl/train/trial_testing.h"

// Every synchronous strategy on networks of every family: what parts of the network ask of it (shortcuts, branches, an auxiliary head, grouped convolutions, frozen layers,
// recurrence, tied words) comes together here.
namespace ddl {
namespace {

using namespace testing;

struct Family {
  std::string model;
  SampleShape shape = {};
  ModelFactory network = {};
  double tolerance = 1e-12;  ///< rounding grows from one batch norm to the next
};

struct Form {
  std::string strategy;
  int workers = 2;
  int micro_batches = 2;     ///< of one worker that trains alike: batch norm sees the same samples
  int own_micro_batches = 1; ///< that each worker's part is cut into, where the strategy's options do not say it
  const char* optimizer = "sgd";
};

constexpr SampleShape kColours{3, 32, 32, 10};
constexpr SampleShape kSmall{3, 20, 20, 10};
constexpr SampleShape kCaptions{3, 32, 32, 17, Objective::captioning, 0, 9};
constexpr SampleShape kSmallCaptions{3, 16, 16, 17, Objective::captioning, 0, 9};

/// Batches of 8, micro-batches of 4, or of 2 where four workers divide the batch.
const std::vector<Form> kForms{
    {"data"},
    {"data[in-process=mirrored]"},
    {"data[in-process=parallel]"},
    {"parameter-server[servers=2]"},
    {"local[every=1]", 2, 2, 1, "sgd[momentum=0]"},
    {"sharded[level=1]"},
    {"sharded[level=2]"},
    {"sharded[level=3]"},
    {"sharded[level=3,unit=1,prefetch=2]"},
    {"model", 2, 2, 2},
    {"pipeline[schedule=gpipe,micro=2]"},
    {"pipeline[schedule=1f1b,micro=2]"},
    {"pipeline[schedule=1f1b,micro=2,recompute=always]"},
    {"pipeline[schedule=1f1b,micro=2,recompute=except-last]"},
    {"pipeline[schedule=interleaved-1f1b,micro=2]"},
    {"pipeline[schedule=looped-bfs,micro=2,chunks=2]"},
    {"pipeline[schedule=zb-h1,micro=2]"},
    {"pipeline[schedule=zb-h1,micro=2,recompute=except-last]"},
    {"pipeline[schedule=zbv,micro=2]"},
    {"pipeline[schedule=dualpipev,micro=2]"},
    {"pipeline[schedule=1f1b,replicas=2/1,micro=2]", 3},
    {"pipeline[schedule=gpipe,replicas=1/2,micro=4]", 3, 4},
    {"tensor", 2, 2, 2},
    {"tensor[sequence=on]", 2, 2, 2},
    {"tensor[split=channels]", 2, 2, 2},
    {"tensor[split=height]", 2, 2, 2},
    {"tensor[split=height/channels,mesh=2x2]", 4, 2, 2},
    {"tensor[split=hidden+vocabulary/features,mesh=2x2]", 4, 2, 2},
    {"tensor[split=sequence/heads+hidden+vocabulary,mesh=2x2]", 4, 2, 2},
    {"hybrid[pipeline=2,tensor=2x2,split=channels/height,micro=2]", 8},
    {"hybrid[pipeline=2,tensor=2,micro=2]", 4},
    {"hybrid[data=2,pipeline=2,micro=2]", 4, 4},
    {"hybrid[data=2,sharded=2]", 4, 4},
    {"hybrid[data=2,sharded=2,level=1]", 4, 4},
    {"hybrid[pipeline=2,sharded=2,micro=2]", 4, 4},
    {"hybrid[data=2,tensor=2]", 4},
    {"hybrid[sharded=2,tensor=2]", 4},
    {"hybrid[data=2,pipeline=2,tensor=2,micro=2]", 8, 4},
    {"hybrid[data=2,pipeline=2,tensor=2,sharded=2,micro=1]", 16, 4},
};

const std::string kGpt = "gpt[hidden=16,heads=4,layers=2,seq=8,vocab=17,dropout=0.1]", kTransformer = "transformer[hidden=16,heads=4,layers=1,dropout=0.1]";

std::vector<Family> families() {
  return {{"mlp[hidden=24]"},
          {"lenet"},
          {"smallcnn", kColours},
          {"resnet", kSmall, narrow_resnet},
          {"resnetv2", kSmall, narrow_resnet_v2},
          {"mobilenet", kSmall, narrow_mobilenet},
          {"vgg", kSmall, narrow_vgg},
          {"alexnet", kSmall, narrow_alexnet},
          {"inception", kSmall, narrow_inception},
          {"captioner[encoder=frozen]", kSmallCaptions, [](const Spec&, const SampleShape& shape) { return narrow_captioner(shape, true); }},
          {"captioner[encoder=trained]", kSmallCaptions, [](const Spec&, const SampleShape& shape) { return narrow_captioner(shape, false); }},
          {kGpt},
          {kTransformer}};
}

Trial trial_of(const Family& family, const Form& form) {
  Trial trial{family.model, form.strategy, 8, 2};
  trial.shape = family.shape;
  trial.network = family.network;
  trial.accumulate = form.own_micro_batches;
  trial.optimizer = form.optimizer;
  return trial;
}

ModelGraph graph_of(const Family& family) {
  const auto model = parse_spec(family.model);
  const auto shape = family.shape.classes > 0 ? family.shape : data_for(family.model, -1, 0)->shape();
  return (family.network ? family.network : builtin_models().at(model.name).make)(model, shape);
}

/// Whether the family's networks have none of the dimensions that the form splits along one of its axes: rows, places of words.
bool refuses(const Family& family, const Form& form) {
  const auto spec = parse_spec(form.strategy);
  if (!spec.options.contains("split")) return false;
  const auto had = dimensions_of(graph_of(family));
  const auto all = split_options(spec);
  return std::any_of(all.begin(), all.end(), [&](const SplitOptions& axis) { return std::none_of(had.begin(), had.end(), [&](Dimension dimension) { return axis.splits(dimension); }); });
}

void expect_refused(const Family& family, const Form& form) {
  const auto spec = parse_spec(form.strategy);
  const auto graph = graph_of(family);
  const auto trial = trial_of(family, form);
  try {
    builtin_strategies().at(spec.name).make({graph, form.workers, trial.batch, 8, spec, {}, trial.accumulate});
    ADD_FAILURE() << family.model << " " << form.strategy << " was not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument);
    EXPECT_NE(std::string(error.what()).find(fmt::format("nothing of '{}' is split", graph.name)), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("and 2 parts, expected some of"), std::string::npos) << error.what();
  }
}

void expect_like_one(const Family& family, const std::vector<Form>& forms, std::int64_t steps = 2) {
  std::map<std::pair<int, std::string>, Outcome> references;  // by micro-batches and optimizer
  for (const auto& form : forms) {
    if (refuses(family, form)) {
      expect_refused(family, form);
      continue;
    }
    auto trial = trial_of(family, form);
    trial.steps = steps;
    const auto outcomes = train(trial, form.workers);
    trial.accumulate = form.micro_batches;
    const auto [reference, is_new] = references.try_emplace({form.micro_batches, form.optimizer});
    if (is_new) reference->second = train_rank(trial, 0, 1, nullptr);
    expect_equal(outcomes, reference->second, fmt::format("{} {}", family.model, form.strategy), family.tolerance);
  }
}

TEST(Families, TrainByEveryStrategy) {
  for (const auto& family : families()) expect_like_one(family, kForms);
}

// In fp32, where sums taken in another order are other sums.
TEST(Families, RepeatBitByBit) {
  for (const auto& family : families())
    for (const auto& form : kForms) {
      if (refuses(family, form)) continue;
      auto trial = trial_of(family, form);
      trial.type = at::kFloat;
      const auto what = fmt::format("{} {}", family.model, form.strategy);
      const auto first = whole(train(trial, form.workers), what), second = whole(train(trial, form.workers), what);
      ASSERT_EQ(first.size(), second.size()) << what;
      EXPECT_TRUE(same_bits(first, second)) << what;
    }
}

// As published, with all their channels: what only depth and width show, and one step does.
TEST(Families, PublishedOnesTrainByStrategiesOfEachKind) {
  const std::vector<Form> forms{{"pipeline[schedule=zbv,micro=2]"}, {"tensor", 2, 2, 2}};
  for (const auto& family : {Family{"resnet18", kColours}, Family{"mobilenetv2", {3, 64, 64, 10}, {}, 1e-11}, Family{"resnet50v2", {3, 64, 64, 10}, {}, 1e-11}, Family{"vgg11", kColours},
                             Family{"captioner[encoder=trained,depth=18,hidden=32]", kCaptions, {}, 1e-11}, Family{"inceptionv3", {3, 107, 107, 10}, {}, 1e-11}})
    expect_like_one(family, forms, 1);
  expect_like_one({"alexnet", {3, 64, 64, 10}}, {{"sharded[level=3]"}}, 1);
  expect_like_one({"captioner[encoder=frozen,depth=18,hidden=32]", kCaptions}, {{"sharded[level=3]"}}, 1);
}

}  // namespace
}  // namespace ddl
