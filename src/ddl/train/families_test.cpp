#include "ddl/train/trial_testing.h"

// Every synchronous strategy on networks of every family: what parts of the network ask of it (shortcuts, branches, an auxiliary head, grouped convolutions, frozen layers,
// recurrence, tied words) comes together here.
namespace ddl {
namespace {

using namespace testing;

struct Family {
  const char* model;
  SampleShape shape;
  double tolerance = 1e-12;  ///< rounding grows from one batch norm to the next
};

constexpr SampleShape kColours{3, 32, 32, 10};
constexpr SampleShape kCaptions{3, 32, 32, 17, Objective::captioning, 0, 9};

// Micro-batches of 4, as many as a worker has with `data` over two: then batch norm sees the same samples everywhere. `tensor` sees a micro-batch whole.
void expect_like_one(const Family& family, const std::vector<std::string>& forms) {
  Trial trial{family.model, "", 8, 2};
  trial.shape = family.shape;
  trial.accumulate = 2;
  const auto reference = train_rank(trial, 0, 1, nullptr);
  for (const auto& form : forms) {
    trial.strategy = form;
    const bool divides = form.starts_with("data") || form.starts_with("sharded") || form.starts_with("parameter-server");
    trial.accumulate = divides ? 1 : 2;
    expect_equal(train(trial, form.starts_with("hybrid") ? 4 : 2), reference, fmt::format("{} {}", family.model, form), family.tolerance);
  }
}

const std::vector<std::string> kAll{"data", "data[in-process=mirrored]", "data[in-process=parallel]", "parameter-server[servers=2]", "model", "pipeline[schedule=gpipe,micro=2]",
                                    "pipeline[schedule=1f1b,micro=2,recompute=always]", "pipeline[schedule=zb-h1,micro=2]", "pipeline[schedule=zbv,micro=2]", "sharded[level=1]", "sharded[level=2]",
                                    "sharded[level=3]", "tensor", "hybrid[pipeline=2,tensor=2,micro=2]"};
const std::vector<std::string> kSome{"pipeline[schedule=1f1b,micro=2]", "pipeline[schedule=zbv,micro=2]", "sharded[level=3]", "tensor"};

TEST(Families, SmallOnesTrainByEveryStrategy) {
  for (const auto& family : {Family{"smallcnn", kColours}, Family{"resnet18", kColours}, Family{"captioner[encoder=frozen,depth=18,hidden=32]", kCaptions},
                             Family{"gpt[hidden=16,heads=4,layers=2,seq=8,vocab=17,dropout=0.1]", {}}, Family{"transformer[hidden=16,heads=4,layers=1,dropout=0.1]", {}}})
    expect_like_one(family, kAll);
}

TEST(Families, LargeOnesTrainByStrategiesOfEachKind) {
  expect_like_one({"mobilenetv2", {3, 64, 64, 10}, 1e-11}, kSome);
  expect_like_one({"resnet50v2", {3, 64, 64, 10}, 1e-11}, kSome);
  expect_like_one({"alexnet", {3, 64, 64, 10}}, kSome);
  expect_like_one({"vgg11", kColours}, kSome);
  expect_like_one({"captioner[encoder=trained,depth=18,hidden=32]", kCaptions, 1e-11}, kSome);
  expect_like_one({"inceptionv3", {3, 107, 107, 10}, 1e-11}, {"pipeline[schedule=1f1b,micro=2]", "sharded[level=3]", "tensor"});
}

}  // namespace
}  // namespace ddl
