#include <algorithm>
#include <cmath>
#include <limits>

#include "ddl/train/trial_testing.h"

// Replicas as torch.nn.DataParallel and tf.distribute.MirroredStrategy have them: they train as one worker does with the whole batch.
namespace ddl {
namespace {

using namespace testing;

const std::vector<std::string> kThreadsOfOne = {"data[in-process=parallel]", "data[in-process=parallel,overlap=on,bucket=40kB]", "data[in-process=mirrored]"};

// Of 8 workers some have no samples in the last batch of an epoch.
TEST(InProcess, EqualsTheBigBatchInFp64) {
  for (const auto* model : {"lenet", "transformer[hidden=16,heads=2,layers=1,dropout=0.1]", "gpt[hidden=16,heads=2,layers=1]"})
    for (const int accumulate : {1, 2}) {
      Trial trial{model};
      const auto reference = train_rank(trial, 0, 1, nullptr);
      trial.accumulate = accumulate;
      for (const auto& form : kThreadsOfOne)
        for (const int ranks : {1, 2, 3, 8}) {
          trial.strategy = form;
          expect_equal(train(trial, ranks), reference, fmt::format("{} {} {} {}", model, form, ranks, accumulate));
        }
    }
}

TEST(InProcess, EqualsTheBigBatchWithEveryOptimizerAndClipping) {
  for (const auto* optimizer : {"adam", "lars", "lamb"}) {
    Trial trial;
    trial.optimizer = optimizer;
    trial.clip = 0.5;
    const auto reference = train_rank(trial, 0, 1, nullptr);
    EXPECT_GT(reference.updates.clipped, 0);
    for (const auto& form : kThreadsOfOne) {
      trial.strategy = form;
      const auto outcomes = train(trial, 3);
      expect_equal(outcomes, reference, fmt::format("{} {}", optimizer, form));
      for (const auto& outcome : outcomes) EXPECT_EQ(outcome.updates.clipped, reference.updates.clipped) << form;
    }
  }
}

// Each replica normalises over its own samples, as a worker of `data` does.
TEST(InProcess, BatchNormIsAsOfDataParallelism) {
  Trial trial{"smallcnn", "data"};
  const auto expected = train(trial, 3);
  for (const auto& form : kThreadsOfOne) {
    trial.strategy = form;
    const auto outcomes = train(trial, 3);
    EXPECT_LT(relative_error(outcomes[0].parameters, expected[0].parameters), 1e-12) << form;
    ASSERT_EQ(outcomes[0].buffers.size(), expected[0].buffers.size());
    for (std::size_t i = 0; i < expected[0].buffers.size(); ++i)
      EXPECT_TRUE(at::allclose(outcomes[0].buffers[i].to(at::kDouble), expected[0].buffers[i].to(at::kDouble), 1e-12, 1e-12)) << form;
  }
}

TEST(InProcess, RepeatsBitByBitOnEveryDevice) {
  for (const auto& form : kThreadsOfOne) {
    Trial trial{"lenet", form, 6, 4, at::kFloat};
    const auto first = train(trial, 3);
    EXPECT_TRUE(same_bits(first[0].parameters, train(trial, 3)[2].parameters)) << form;
    for (const auto& device : test_devices()) {
      if (device.starts_with("cuda")) continue;  // other kernels
      trial.device = device;
      const auto outcomes = train(trial, 3);
      EXPECT_TRUE(same_bits(first[0].parameters, outcomes[1].parameters)) << form << " " << device;
      for (const auto& outcome : outcomes) EXPECT_EQ(outcome.faults, 0) << form << " " << device;
    }
  }
}

TEST(InProcess, RecomputesTheSameBits) {
  Trial trial{"transformer[hidden=16,heads=2,layers=1,dropout=0.1]", "data[in-process=parallel]", 6, 4, at::kFloat};
  const auto kept = train(trial, 3);
  trial.strategy = "data[in-process=parallel,recompute=on]";
  EXPECT_TRUE(same_bits(kept[0].parameters, train(trial, 3)[0].parameters));
}

TEST(InProcess, MixedPrecisionSkipsAndScalesAlike) {
  Trial trial{"lenet", "data", 6, 4, at::kFloat};
  trial.precision = "fp16";
  trial.bright = 3;
  const auto expected = train(trial, 3);
  ASSERT_GT(expected[0].updates.skipped, 0);
  for (const auto& form : kThreadsOfOne) {
    trial.strategy = form;
    for (const auto& outcome : train(trial, 3)) {
      EXPECT_EQ(outcome.updates.skipped, expected[0].updates.skipped) << form;
      EXPECT_EQ(outcome.updates.loss_scale, expected[0].updates.loss_scale) << form;
      EXPECT_LT(relative_error(outcome.parameters, expected[0].parameters), 1e-3) << form;
    }
  }
}

// Worker 0 alone has the loss and updates; the others compute their samples, and only those.
TEST(InProcess, OneWorkerHasWhatAllShare) {
  constexpr int kSteps = 3;
  const Trial trial{"lenet", "data[in-process=parallel]", 6, kSteps};
  const auto outcomes = train(trial, 3);
  const auto graph = builtin_models().at("lenet").make({"lenet", {}}, Waves().shape());
  const auto plan = data_parallel({graph, 3, 6, 8, parse_spec(trial.strategy), {}});
  for (int rank = 0; rank < 3; ++rank) {
    const auto& outcome = outcomes[static_cast<std::size_t>(rank)];
    const auto& tasks = plan.roles[static_cast<std::size_t>(rank)].tasks;
    const auto spans = [&](TaskKind kind) {
      return std::count_if(outcome.trace.begin(), outcome.trace.end(),
                           [&](const Span& span) { return span.stream == Stream::compute && span.task >= 0 && tasks[static_cast<std::size_t>(span.task)].kind == kind; });
    };
    const auto buckets = static_cast<int>(plan.roles[0].buckets.size());
    EXPECT_EQ(spans(TaskKind::update), rank == 0 ? kSteps * buckets : 0);
    EXPECT_EQ(spans(TaskKind::average), rank == 0 ? 0 : kSteps * buckets) << "who takes parameters";
    EXPECT_EQ(outcome.loss > 0, rank == 0);
    // Of worker 0: its own and the loss of each.
    EXPECT_EQ(spans(TaskKind::forward), kSteps * (rank == 0 ? 1 + 3 : 1));
    EXPECT_EQ(spans(TaskKind::backward), kSteps * (rank == 0 ? 1 + 3 : 1));
  }
}

TEST(InProcess, OneVoteStopsAllWorkersAndALossThatIsNotFiniteEndsThem) {
  for (const auto& form : kThreadsOfOne) {
    Trial trial{"mlp", form, 6, 50};
    trial.ask_at = 3;
    trial.ask_rank = 2;
    for (const auto& outcome : train(trial, 3)) EXPECT_EQ(outcome.steps, 4) << form;

    Trial bright{"lenet", form, 6, 50};
    bright.bright = 3;
    bright.brightness = std::numeric_limits<float>::quiet_NaN();
    const auto ended = testing::run_group("inproc", 3, [&](Communicator& communicator) { train_rank(bright, communicator.rank(), 3, &communicator); }, {Seconds{60}});
    for (const auto& outcome : ended) {
      ASSERT_TRUE(outcome.has_value()) << form;
      const std::string said = outcome->what();
      // Who has not heard by the time that the others have gone is told so.
      EXPECT_TRUE(said.find("loss is not finite at step") != std::string::npos || said.find("left") != std::string::npos) << form << ": " << said;
    }
  }
}

}  // namespace
}  // namespace ddl
