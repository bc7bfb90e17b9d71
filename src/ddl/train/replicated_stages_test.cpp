#include <cmath>

#include "ddl/core/error.h"
#include "ddl/nn/narrow_networks_testing.h"
#include "ddl/train/trial_testing.h"

// Stages of several workers each, which take micro-batches in turn, train as one worker does.
namespace ddl {
namespace {

using namespace testing;

const std::vector<std::pair<std::string, int>> kReplicated{{"pipeline[replicas=2/1,micro=4]", 3},
                                                      {"pipeline[replicas=1/2,micro=3]", 3},
                                                      {"pipeline[replicas=2/2,micro=5,recompute=except-last]", 4},
                                                      {"pipeline[replicas=1/3/1,micro=6,balance=count]", 5},
                                                      {"pipeline[schedule=gpipe,replicas=3/2,micro=6]", 5},
                                                      {"pipeline[replicas=3,micro=3]", 3},
                                                      {"pipeline[balance=pipedream,micro=4]", 3},
                                                      {"pipeline[balance=pipedream,bandwidth=1kbps,micro=4]", 3}};

// Batches of 6 from 11 samples: the last of each epoch has 5, so that with 6 micro-batches one is empty, and so may be a replica's only one. Weights of words are tied
// between the first stage and the last.
TEST(ReplicatedStages, EqualTheBigBatchInFp64) {
  for (const auto* model : {"lenet", "transformer[hidden=16,heads=2,layers=1,dropout=0.1]", "gpt[hidden=16,heads=2,layers=2,seq=8,vocab=17,dropout=0.1]"}) {
    Trial trial{model};
    trial.label_smoothing = 0.1;
    const auto reference = train_rank(trial, 0, 1, nullptr);
    for (const auto& [form, ranks] : kReplicated) {
      trial.strategy = form;
      expect_equal(train(trial, ranks), reference, fmt::format("{} {}", model, form));
    }
  }
}

TEST(ReplicatedStages, EqualAccumulationOfTheSameMicroBatchesWithBatchNorm) {
  Trial trial{"resnet", "", 4, 2};
  trial.network = wide_resnet;
  trial.accumulate = 4;
  const auto reference = train_rank(trial, 0, 1, nullptr);
  for (const auto& [form, ranks] : {std::pair<const char*, int>{"pipeline[replicas=2/1,micro=4]", 3}, {"pipeline[schedule=gpipe,replicas=1/2,micro=4,recompute=always]", 3}}) {
    trial.strategy = form;
    expect_equal(train(trial, ranks), reference, form);
  }
}

TEST(ReplicatedStages, ClipByTheNormOfAllStagesTogetherOnEveryDevice) {
  for (const auto* model : {"lenet", "gpt[hidden=16,heads=2,layers=2,seq=8,vocab=17]"}) {
    Trial trial{model};
    trial.clip = 0.05;
    const auto reference = train_rank(trial, 0, 1, nullptr);
    EXPECT_GT(reference.updates.clipped, 0);
    for (const auto& device : test_devices()) {
      trial.device = device;
      trial.strategy = "pipeline[replicas=2/1,micro=3]";
      const auto outcomes = train(trial, 3);
      expect_equal(outcomes, reference, fmt::format("{} {}", model, device));
      for (const auto& outcome : outcomes) {
        EXPECT_EQ(outcome.updates.clipped, reference.updates.clipped);
        EXPECT_EQ(outcome.faults, 0) << device;
      }
    }
  }
}

TEST(ReplicatedStages, RepeatBitByBit) {
  Trial trial{"transformer[hidden=16,heads=2,layers=1,dropout=0.1]", "pipeline[replicas=2/1,micro=3]", 6, 4, at::kFloat};
  const auto first = whole(train(trial, 3), "first");
  EXPECT_TRUE(same_bits(first, whole(train(trial, 3), "second")));
}

// An overflow that one replica alone sees is everyone's.
TEST(ReplicatedStages, SkipAStepTogether) {
  Trial trial{"lenet", "pipeline[replicas=2/1,micro=3]", 6, 4, at::kFloat};
  trial.precision = "fp16";
  trial.bright = 3;
  const auto outcomes = train(trial, 3);
  EXPECT_GT(outcomes[0].updates.skipped, 0);
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.updates.skipped, outcomes[0].updates.skipped);
  whole(outcomes, "fp16");
}

TEST(ReplicatedStages, ALossThatIsNotFiniteEndsAllWorkers) {
  for (const auto* form : {"pipeline[replicas=2/1,micro=2]", "pipeline[replicas=1/2,micro=2]"}) expect_all_end_of_a_loss_that_is_not_finite({"lenet", form}, 3);
}

TEST(ReplicatedStages, CountEachSampleOnce) {
  Trial trial{"lenet", "pipeline[replicas=1/2,micro=3]", 6, 2};
  std::int64_t samples = 0;
  for (const auto& outcome : train(trial, 3)) samples += outcome.samples;
  EXPECT_EQ(samples, 6 + 5);
}

}  // namespace
}  // namespace ddl
