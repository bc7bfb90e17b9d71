#include <c10/core/GradMode.h>

#include "ddl/core/error.h"
#include "ddl/train/objective.h"
#include "ddl/nn/narrow_networks_testing.h"
#include "ddl/train/trial_testing.h"

// Asynchronous pipelines train with weights that are as old as they say, and no older: one worker that is given those weights, stage by stage,
// ends with the same parameters.
namespace ddl {
namespace {

using namespace testing;

/// What P stages give where stage s computes batch b with what max(0, b - staleness[s]) updates made.
std::vector<at::Tensor> delayed(const Trial& trial, const Plan& plan) {
  const auto held = data_for(trial.model, -1, 1);
  const Dataset& data = *held;
  const auto model = parse_spec(trial.model);
  Network network((trial.network ? trial.network : builtin_models().at(model.name).make)(model, data.shape()), {trial.type, at::kCPU, trial.kernels, 7});
  const auto optimizer = make_optimizer(parse_spec(trial.optimizer), network.parameters(), {0.9, 0.01});
  const auto device = test_device("cpu");
  const Sampler sampler(data.size(), trial.batch, 1, true, 3, [&](std::int64_t index) { return data.weight(index); });
  Loader loader(data, [&](std::int64_t step) { return sampler.share(step, 0); }, 0, trial.steps, {0, 1});

  std::vector<std::vector<at::Tensor>> versions;  // by number of updates
  const auto keep = [&] {
    versions.emplace_back();
    for (const auto& parameter : network.parameters()) versions.back().push_back(parameter.detach().clone());
  };
  const auto take = [&](const std::function<std::size_t(std::size_t)>& version) {
    const c10::NoGradGuard guard;
    for (std::size_t i = 0; i < network.parameters().size(); ++i) network.parameters()[i].copy_(versions[version(i)][i]);
  };
  keep();
  for (std::int64_t batch = 0; batch < trial.steps; ++batch) {
    take([&](std::size_t parameter) {
      for (const auto& role : plan.roles)
        for (const int stage : role.stages)
          for (const int own : plan.stages[static_cast<std::size_t>(stage)].parameters)
            if (own == static_cast<int>(parameter)) return static_cast<std::size_t>(std::max<std::int64_t>(0, batch - role.staleness));
      return std::size_t{0};
    });
    const auto samples = loader.next();
    const auto given = example(*samples, data.shape(), 0, samples->samples, network, *device);
    (loss_sum(network.forward(given.input, true), given.expected, 0) / static_cast<double>(samples->global_weight)).backward();
    std::vector<at::Tensor> gradients;
    for (auto& parameter : network.parameters()) gradients.push_back(std::exchange(parameter.mutable_grad(), at::Tensor()));
    take([&](std::size_t) { return static_cast<std::size_t>(batch); });
    for (std::size_t i = 0; i < gradients.size(); ++i) optimizer->update(i, gradients[i], kRate);
    keep();
  }
  return versions.back();
}

Plan plan_of(const Trial& trial, int workers) {
  const auto model = parse_spec(trial.model);
  const auto graph = (trial.network ? trial.network : builtin_models().at(model.name).make)(model, data_for(trial.model, -1, 1)->shape());
  const auto strategy = parse_spec(trial.strategy);
  return builtin_strategies().at(strategy.name).make({graph, workers, trial.batch, 8, strategy, {}});
}

TEST(AsynchronousPipeline, UsesWeightsAsOldAsItSays) {
  for (const auto* model : {"lenet", "mlp", "resnet"})
    for (const int workers : {1, 2, 3, 4}) {
      Trial trial{model, "pipeline[schedule=pipedream]", 6, 7};
      if (trial.model == "resnet") trial.network = wide_resnet;  // there for its shortcuts and batch norm
      const auto plan = plan_of(trial, workers);
      for (int worker = 0; worker < workers; ++worker) EXPECT_EQ(plan.role_of(worker).staleness, workers - 1 - worker);
      EXPECT_LT(relative_error(whole(train(trial, workers), model), delayed(trial, plan)), 1e-12) << model << " " << workers;
    }
}

TEST(AsynchronousPipeline, TwoVersionsAreOneUpdateOld) {
  for (const auto* form : {"pipeline[schedule=pipedream-2bw,micro=4]", "pipeline[schedule=pipedream-2bw,micro=6,recompute=always]"})
    for (const int workers : {1, 2, 3, 4}) {
      const Trial trial{"lenet", form, 12, 7};
      const auto plan = plan_of(trial, workers);
      for (int worker = 0; worker < workers; ++worker) EXPECT_EQ(plan.role_of(worker).staleness, workers == 1 ? 0 : 1);
      EXPECT_LT(relative_error(whole(train(trial, workers), form), delayed(trial, plan)), 1e-12) << form << " " << workers;
    }
}

// PipeDream's hybrid: replicas of a stage take micro-batches in turn, and update together with the gradient of the batch. 11 samples in batches of 6: the last of each epoch
// has 5, so that a replica's micro-batch may be empty. Whole pipelines side by side, too.
TEST(AsynchronousPipeline, OfReplicatedStagesUsesWeightsAsOldAsItSays) {
  const std::vector<std::tuple<const char*, const char*, int>> forms{{"pipeline", "schedule=pipedream,replicas=2/1", 3},
                                                                     {"pipeline", "schedule=pipedream,replicas=1/2,micro=2,recompute=always", 3},
                                                                     {"pipeline", "schedule=pipedream,replicas=2/2,micro=6", 4},
                                                                     {"pipeline", "schedule=pipedream,replicas=1/3/1,micro=3", 5},
                                                                     {"pipeline", "schedule=pipedream-2bw,replicas=2/1,micro=6", 3},
                                                                     {"pipeline", "schedule=pipedream,replicas=3", 3},
                                                                     {"hybrid", "data=2,pipeline=2,schedule=pipedream", 4},
                                                                     {"hybrid", "data=2,pipeline=2,schedule=pipedream-2bw,micro=3", 4}};
  for (const auto* model : {"lenet", "mlp"})
    for (const auto& [strategy, options, workers] : forms)
      for (const auto& device : test_devices()) {
        Trial trial{model, fmt::format("{}[{}]", strategy, options), 6, 7};
        trial.device = device;
        const auto plan = plan_of(trial, workers);
        EXPECT_TRUE(plan.asynchronous() || plan.stages.size() == 1) << options;
        EXPECT_LT(relative_error(whole(train(trial, workers), options), delayed(trial, plan)), 1e-12) << model << " " << options << " " << device;
      }
}

// Shortcuts across stages; each micro-batch is normalised alone, so that only what repeats is held, and that all replicas end alike (whole()).
TEST(AsynchronousPipeline, OfReplicatedStagesRepeatsBitByBit) {
  Trial trial{"resnet", "pipeline[schedule=pipedream,replicas=2/1]", 4, 3, at::kFloat};
  trial.network = wide_resnet;
  EXPECT_TRUE(same_bits(whole(train(trial, 3), "first"), whole(train(trial, 3), "second")));
}

// Whoever asks, all stop after the same step, with nothing begun that is not ended: what they have is what so many steps give.
TEST(AsynchronousPipeline, StopsTogetherAfterWhatWasBegun) {
  const std::vector<std::pair<const char*, int>> forms{{"pipeline[schedule=pipedream]", 2},
                                                       {"pipeline[schedule=pipedream]", 4},
                                                       {"pipeline[schedule=pipedream-2bw,micro=4]", 3},
                                                       {"pipeline[schedule=pipedream,replicas=2/1]", 3}};
  for (const auto& [form, workers] : forms)
    for (const int asks : {0, workers - 1}) {
      Trial trial{"lenet", form, 6, 40};
      trial.ask_at = 5;
      trial.ask_rank = asks;
      const auto outcomes = train(trial, workers);
      for (const auto& outcome : outcomes) EXPECT_EQ(outcome.steps, outcomes[0].steps) << form << " " << asks;
      EXPECT_GT(outcomes[0].steps, trial.ask_at);
      ASSERT_LE(outcomes[0].steps, trial.ask_at + 1 + 2 * workers) << form << " " << asks;
      trial.steps = outcomes[0].steps;
      EXPECT_LT(relative_error(whole(outcomes, form), delayed(trial, plan_of(trial, workers))), 1e-12) << form << " " << asks;
    }
}

// Old weights are not the newest ones: a pipeline that used those would end elsewhere.
TEST(AsynchronousPipeline, IsNotTheSynchronousOne) {
  const Trial trial{"lenet", "pipeline[schedule=pipedream]", 6, 7};
  const auto reference = train_rank({"lenet", "single", 6, 7}, 0, 1, nullptr);
  EXPECT_GT(relative_error(whole(train(trial, 3), "pipedream"), reference.parameters), 1e-6);
}

TEST(AsynchronousPipeline, RepeatsBitByBit) {
  const Trial trial{"lenet", "pipeline[schedule=pipedream-2bw,micro=3]", 6, 5, at::kFloat};
  EXPECT_TRUE(same_bits(whole(train(trial, 3), "first"), whole(train(trial, 3), "second")));
}

TEST(AsynchronousPipeline, RefusesSharedWeightsAndTheWholeGradient) {
  try {
    plan_of({"gpt[hidden=16,heads=2,layers=2,seq=8,vocab=17]", "pipeline[schedule=pipedream]"}, 2);
    ADD_FAILURE() << "tied weights at two stages were not refused";
  } catch (const Error& error) {
    for (const auto* word : {"wte.weight", "expected a network without tied weights, or a synchronous schedule"}) EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
  }
  const auto graph = builtin_models().at("lenet").make({"lenet", {}}, {1, 28, 28, 10});
  StrategyInput input{graph, 2, 6, 8, parse_spec("pipeline[schedule=pipedream]"), {}};
  input.whole_gradient = true;
  EXPECT_THROW(builtin_strategies().at("pipeline").make(input), Error);
}

}  // namespace
}  // namespace ddl
