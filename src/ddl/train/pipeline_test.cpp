#include <algorithm>
#include <set>

#include "ddl/core/error.h"
#include "ddl/measure/ledger.h"
#include "ddl/train/trial_testing.h"

// Strategies that cut the network into stages train as one worker does.
namespace ddl {
namespace {

using namespace testing;

const std::vector<std::string> kForms{"model",
                                      "model[balance=count,recompute=always]",
                                      "pipeline[schedule=gpipe,micro=3]",
                                      "pipeline[schedule=1f1b,micro=5]",
                                      "pipeline[schedule=1f1b,micro=4,recompute=except-last]",
                                      "pipeline[schedule=gpipe,micro=2,recompute=always,balance=memory]",
                                      "pipeline[schedule=interleaved-1f1b,micro=6,chunks=2]",
                                      "pipeline[schedule=looped-bfs,micro=3,chunks=2]"};

// Batches of 6 from 11 samples: the last of each epoch has 5, so that with 6 micro-batches one is empty.
TEST(Pipeline, EqualsTheBigBatchInFp64) {
  for (const auto* model : {"lenet", "mlp", "transformer[hidden=16,heads=2,layers=1,dropout=0.1]", "gpt[hidden=16,heads=2,layers=2,seq=8,vocab=17,dropout=0.1]"}) {
    Trial trial{model};
    trial.label_smoothing = 0.1;
    const auto reference = train_rank(trial, 0, 1, nullptr);
    for (const auto& form : kForms)
      for (const int ranks : {1, 2, 3}) {
        if (form.find("chunks=2") != std::string::npos && (ranks == 1 || std::string_view(model) == "mlp")) continue;
        trial.strategy = form;
        if (form.find("micro=6") != std::string::npos && 6 % ranks != 0) continue;
        expect_equal(train(trial, ranks), reference, fmt::format("{} {} {}", model, form, ranks));
      }
  }
}

// Batch norm normalises by micro-batch: the reference is one worker that accumulates the gradients of the same ones. Shortcuts cross stages.
TEST(Pipeline, EqualsAccumulationOfTheSameMicroBatchesWithBatchNorm) {
  Trial trial{"resnet18", "", 4, 2};
  trial.accumulate = 2;
  const auto reference = train_rank(trial, 0, 1, nullptr);
  for (const auto* form : {"pipeline[schedule=gpipe,micro=2]", "pipeline[schedule=1f1b,micro=2,recompute=always]", "pipeline[schedule=looped-bfs,micro=2,chunks=3,balance=count]"}) {
    trial.strategy = form;
    for (const int ranks : {2, 3}) expect_equal(train(trial, ranks), reference, fmt::format("{} {}", form, ranks));
  }
}

TEST(Pipeline, ClipsByTheNormOfAllStagesTogether) {
  for (const auto* model : {"lenet", "gpt[hidden=16,heads=2,layers=2,seq=8,vocab=17]"}) {
    Trial trial{model};
    trial.clip = 0.05;
    const auto reference = train_rank(trial, 0, 1, nullptr);
    EXPECT_GT(reference.updates.clipped, 0);
    trial.strategy = "pipeline[schedule=1f1b,micro=3]";
    const auto outcomes = train(trial, 3);
    expect_equal(outcomes, reference, model);
    for (const auto& outcome : outcomes) EXPECT_EQ(outcome.updates.clipped, reference.updates.clipped);
  }
}

TEST(Pipeline, RepeatsBitByBit) {
  Trial trial{"transformer[hidden=16,heads=2,layers=1,dropout=0.1]", "pipeline[micro=3]", 6, 4, at::kFloat, Kernels::fast};
  const auto first = whole(train(trial, 3), "first");
  EXPECT_TRUE(same_bits(first, whole(train(trial, 3), "second")));
}

TEST(Pipeline, EachWorkerHoldsItsStagesAlone) {
  Trial trial{"lenet", "pipeline[micro=2]"};
  std::set<int> held;
  for (const auto& outcome : train(trial, 3))
    for (const int number : outcome.numbers) EXPECT_TRUE(held.insert(number).second) << number;
  EXPECT_EQ(held.size(), train_rank({}, 0, 1, nullptr).parameters.size());
}

TEST(Pipeline, ALossThatIsNotFiniteEndsAllWorkers) {
  for (const auto* form : {"pipeline[micro=2]", "pipeline[schedule=zb-h1,micro=3]", "pipeline[schedule=zbv,micro=5,balance=count]", "pipeline[schedule=dualpipev,micro=6,balance=count]"})
    expect_all_end_of_a_loss_that_is_not_finite({"lenet", form}, 3);
}

// Where the backward is split workers vote while gradients of weights are still computed, and steps overlap: all stop after the step in which one asked, as trained as
// one worker is by then.
TEST(Pipeline, OneVoteStopsAllWorkersInThatStep) {
  Trial reference{"lenet"};
  reference.steps = 4;
  const auto alone = train_rank(reference, 0, 1, nullptr);
  for (const auto* form : {"pipeline[micro=2]", "pipeline[schedule=zb-h1,micro=3]", "pipeline[schedule=zbv,micro=5,balance=count]", "pipeline[schedule=dualpipev,micro=6,balance=count]"})
    for (const int asks : {0, 1, 2}) {
      Trial trial{"lenet", form};
      trial.steps = 20;
      trial.ask_at = 3;
      trial.ask_rank = asks;
      const auto outcomes = train(trial, 3);
      for (const auto& outcome : outcomes) EXPECT_EQ(outcome.steps, trial.ask_at + 1) << form << " " << asks;
      expect_equal(outcomes, alone, fmt::format("{} {}", form, asks));
    }
}

double bubble_of(const Trace& all, std::int32_t number, int worker) {
  std::vector<Span> step;
  std::copy_if(all.begin(), all.end(), std::back_inserter(step), [&](const Span& span) { return span.step == number; });
  Nanoseconds begin = std::numeric_limits<Nanoseconds>::max(), end = 0;
  for (const auto& span : step)
    if (span.worker == worker) {
      begin = std::min(begin, span.begin);
      end = std::max(end, span.end);
    }
  return fold(step, worker, begin, end)[Cause::bubble];
}

// What a worker stands still for is a bubble until the message is on its way: nearly all of the time by which the other worker is late.
TEST(Pipeline, TellsOfBubbles) {
  for (const int worker : {0, 1}) {
    Trial trial{"mlp", "model", 6, 4};
    trial.slow_rank = 1 - worker;
    trial.slow_ms = 40;
    Trace all;
    for (const auto& outcome : train(trial, 2)) all.insert(all.end(), outcome.trace.begin(), outcome.trace.end());
    std::int32_t last = 0;
    for (const auto& span : all) last = std::max(last, span.step);
    ASSERT_EQ(last, 3);
    double bubble = 0;
    for (std::int32_t number = 1; number <= last; ++number) bubble += bubble_of(all, number, worker);
    EXPECT_GT(bubble, 0.02) << worker;
  }
}

}  // namespace
}  // namespace ddl
