#include <algorithm>
#include <map>
#include <set>

#include "ddl/core/error.h"
#include "ddl/nn/builtin.h"
#include "ddl/nn/narrow_networks_testing.h"
#include "ddl/train/trial_testing.h"

// Workers that keep parts of optimizer, gradients and parameters train as one worker does. Memory that a worker gives back is filled with NaN here
// (trial_testing.h), and parameters that are not there have none, so that what is read at the wrong time shows.
namespace ddl {
namespace {

using namespace testing;

const std::vector<std::string> kSharded{"sharded[level=1]",
                                      "sharded[level=1,bucket=20kB,overlap=off]",
                                      "sharded[level=2,bucket=20kB]",
                                      "sharded[level=2,bucket=1B,overlap=off]",
                                      "sharded",
                                      "sharded[unit=1]",
                                      "sharded[unit=1,prefetch=0]",
                                      "sharded[unit=1,prefetch=3]",
                                      "sharded[unit=2,reshard=off]",
                                      "sharded[unit=1,recompute=on]"};
const std::vector<std::string> kModels{"lenet", "mlp[hidden=50]", "transformer[hidden=16,heads=2,layers=1,dropout=0.1]", "gpt[hidden=16,heads=2,layers=2,seq=8,vocab=17,dropout=0.1]"};

// Batches of 6 from 11 samples: the last of each epoch has 5, so that shares are unequal, and with three micro-batches some are empty.
TEST(Sharded, EqualsTheBigBatchInFp64) {
  for (const auto& model : kModels) {
    Trial trial{model};
    trial.label_smoothing = 0.1;
    const auto reference = train_rank(trial, 0, 1, nullptr);
    for (const auto& form : kSharded)
      for (const int ranks : {1, 2, 3, 4})
        for (const int accumulate : {1, 3}) {
          trial.strategy = form;
          trial.accumulate = accumulate;
          expect_equal(train(trial, ranks), reference, fmt::format("{} {} {} {}", model, form, ranks, accumulate));
        }
  }
}

// Batch norm takes the statistics of the same local slices as `data` does. Shortcuts cross units; parameters lie channels last.
TEST(Sharded, EqualsDataParallelismWithBatchNorm) {
  for (const int accumulate : {1, 2}) {
    Trial trial{"resnet", "data", 6, 2};
    trial.network = wide_resnet;
    trial.accumulate = accumulate;
    for (const int ranks : {2, 3}) {
      trial.strategy = "data";
      const auto reference = train(trial, ranks);
      double loss = 0;
      for (const auto& outcome : reference) loss += outcome.loss;
      for (const auto* form : {"sharded[level=1]", "sharded[level=2,bucket=100kB]", "sharded", "sharded[unit=1]", "sharded[unit=3,recompute=on]"}) {
        trial.strategy = form;
        const auto outcomes = train(trial, ranks);
        EXPECT_LT(relative_error(whole(outcomes, form), reference[0].parameters), 1e-12) << form << " " << ranks;
        double own = 0;
        for (const auto& outcome : outcomes) own += outcome.loss;
        EXPECT_NEAR(own, loss, 1e-12 * loss) << form << " " << ranks;
      }
    }
  }
}

// Parts are cut through parameters: rules that read norms of the whole ones get them.
TEST(Sharded, EveryOptimizerUpdatesParts) {
  // Adam and LAMB divide by the root of a mean of squares: of a parameter whose gradient is nothing but rounding (the bias of attention's keys) they make
  // steps of full size, each its own. LeNet has none such, but gradients that are nearly 0.
  for (const auto* optimizer : {"sgd", "sgd[nesterov=on]", "adam", "adamw", "lars", "lars[vectors=on]", "lamb"})
    for (const double clip : {0.0, 0.05}) {
      const bool divides = std::string_view(optimizer).substr(0, 3) != "sgd" && std::string_view(optimizer).substr(0, 4) != "lars";
      Trial trial{divides ? "lenet" : "gpt[hidden=16,heads=2,layers=2,seq=8,vocab=17]"};
      trial.optimizer = optimizer;
      trial.clip = clip;
      const auto reference = train_rank(trial, 0, 1, nullptr);
      EXPECT_EQ(reference.updates.clipped > 0, clip > 0);
      for (const auto* form : {"sharded[level=1]", "sharded[level=2]", "sharded[level=3,unit=1]"}) {
        trial.strategy = form;
        const auto outcomes = train(trial, 3);
        const auto what = fmt::format("{} {} {}", optimizer, form, clip);
        if (divides)
          EXPECT_LT(relative_error(whole(outcomes, what), reference.parameters), 1e-7) << what;
        else
          expect_equal(outcomes, reference, what);
        for (const auto& outcome : outcomes) EXPECT_EQ(outcome.updates.clipped, reference.updates.clipped);
      }
    }
}

// Of two workers each sum has two terms, in either order the same: what updates parts must do to the bit what updates whole parameters does.
TEST(Sharded, TwoWorkersHaveTheBitsOfDataParallelism) {
  for (const auto* optimizer : {"sgd", "adam", "adamw"})
    for (const auto* model : {"resnet", "gpt[hidden=16,heads=2,layers=2,seq=8,vocab=17,dropout=0.1]"}) {
      Trial trial{model, "data", 6, 3, at::kFloat};
      if (trial.model == "resnet") trial.network = wide_resnet;
      trial.optimizer = optimizer;
      const auto reference = train(trial, 2);
      for (const auto* form : {"sharded[level=1]", "sharded[level=2,bucket=10kB]", "sharded", "sharded[level=3,reshard=off]"}) {
        trial.strategy = form;
        EXPECT_TRUE(same_bits(whole(train(trial, 2), form), reference[0].parameters)) << optimizer << " " << model << " " << form;
      }
    }
}

TEST(Sharded, RepeatsBitByBit) {
  for (const auto* form : {"sharded[level=1]", "sharded[level=2,bucket=10kB]", "sharded[unit=1]"}) {
    const Trial trial{"transformer[hidden=16,heads=2,layers=1,dropout=0.1]", form, 6, 4, at::kFloat, Kernels::fast, 2};
    const auto first = train(trial, 3);
    EXPECT_TRUE(same_bits(first[0].parameters, train(trial, 3)[2].parameters)) << form;
  }
}

// fp16: a step whose gradients overflow is left out by all.
TEST(Sharded, WorkersSkipAStepTogether) {
  for (const auto* form : {"sharded[level=1]", "sharded[level=2]", "sharded[unit=1]"}) {
    Trial trial{"lenet", form, 6, 4, at::kFloat};
    trial.precision = "fp16";
    trial.bright = 3;
    const auto outcomes = train(trial, 2);
    EXPECT_GT(outcomes[0].updates.skipped, 0) << form;
    EXPECT_EQ(outcomes[0].updates.skipped, outcomes[1].updates.skipped) << form;
    whole(outcomes, form);
  }
}

TEST(Sharded, ALossThatIsNotFiniteEndsAllWorkers) {
  for (const auto* form : {"sharded[level=2]", "sharded[unit=1]"}) expect_all_end_of_a_loss_that_is_not_finite({"lenet", form}, 3);
}

/// One worker's shards of a plan, without a step.
struct Made {
  ModelGraph graph;
  Plan plan;
  std::int64_t parameters = 0, gradients = 0, slots = 0, optimizer = 0;
};
std::vector<Made> make(const std::string& form, int ranks, const ModelGraph& graph) {
  return on_ranks(ranks, [&](Communicator& communicator) {
    Made made{graph, {}};
    StrategyInput input{made.graph, ranks, 12, 4, parse_spec(form)};
    input.optimizer_tensors = 2;
    made.plan = sharded(input);
    const auto device = test_device("cpu");
    Network network(StageRunner::prepare(made.graph, made.plan.stages), {at::kFloat, at::kCPU, Kernels::fast, 7});
    ParameterShards shards(made.plan, communicator.rank(), network, communicator.transport(), *device);
    const auto optimizer = make_optimizer({"adam", {}}, shards.own());
    const GradientShards gradients(network.parameters(), shards.layouts(), communicator.transport());
    made.parameters = shards.bytes();
    made.gradients = gradients.own_bytes();
    made.slots = gradients.slot_bytes();
    made.optimizer = optimizer->state_bytes();
    communicator.barrier().wait();
    return made;
  });
}

// What a plan says is held is what is held, to the byte on the worker with the longest parts.
TEST(Sharded, HoldsWhatWasPlanned) {
  for (const auto* form : {"sharded[level=1]", "sharded[level=2]", "sharded", "sharded[unit=1,prefetch=2]", "sharded[reshard=off]"}) {
    // Its words are its output layer's, too.
    for (const auto& graph : {wide_resnet({}, Waves().shape()), builtin_models().at("gpt").make(parse_spec("gpt[hidden=16,layers=4,heads=2]"), {.classes = 200, .objective = Objective::language, .target_length = 17})}) {
      const auto all = make(form, 3, graph);
      const auto& first = all[0];
      const auto& holds = first.plan.roles[0].holds;
      EXPECT_EQ(first.parameters, holds.parameters) << form;
      EXPECT_EQ(first.gradients, holds.gradients) << form;
      EXPECT_EQ(first.slots, holds.buckets) << form;
      EXPECT_EQ(first.optimizer, holds.optimizer) << form;
    }
  }
}

// A gradient that is in the making from the first task of backward to the last takes no slot from others, which would find memory of their own.
TEST(Sharded, WhatSeveralLayersUseIsReducedOnceAndHasABucketOfItsOwn) {
  const auto graph = builtin_models().at("gpt").make(parse_spec("gpt[hidden=16,layers=4,heads=2]"), {.classes = 200, .objective = Objective::language, .target_length = 17});
  StrategyInput input{graph, 2, 12, 4, parse_spec("sharded[level=2,bucket=1kB]")};
  input.micro_batches = 3;
  const auto plan = sharded(input);
  const auto& role = plan.roles[0];
  ASSERT_GT(role.buckets.size(), 5U);
  std::map<int, int> reductions;
  for (const auto& task : role.tasks)
    if (task.kind == TaskKind::collective && task.goal == Goal::reduce_scatter) ++reductions[task.bucket];
  for (std::size_t b = 0; b < role.buckets.size(); ++b) {
    const bool tied = role.buckets[b].parameters == std::vector<int>{0};
    EXPECT_EQ(role.buckets[b].every_pass, !tied) << b;
    EXPECT_EQ(reductions[static_cast<int>(b)], tied ? 1 : 3) << b;
  }
  EXPECT_EQ(role.buckets.back().parameters, std::vector<int>{0}) << "words";
}

TEST(Sharded, RefusesADeviceWithMemoryOfItsOwn) {
  Trial trial{"lenet", "sharded"};
  trial.device = "delayed";
  const auto outcomes = testing::run_group("inproc", 2, [&](Communicator& communicator) { train_rank(trial, communicator.rank(), 2, &communicator); }, {Seconds{60}});
  ASSERT_TRUE(outcomes[0].has_value());
  EXPECT_NE(std::string(outcomes[0]->what()).find("memory of its own"), std::string::npos) << outcomes[0]->what();
}

}  // namespace
}  // namespace ddl
