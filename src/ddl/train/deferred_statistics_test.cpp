#include "ddl/train/deferred_statistics.h"

#include "ddl/core/error.h"
#include "ddl/nn/narrow_networks_testing.h"
#include "ddl/nn/network_testing.h"
#include "ddl/train/trial_testing.h"

namespace ddl {
namespace {

double apart(const at::Tensor& a, const at::Tensor& b) { return (a - b).abs().max().item<double>() / b.abs().max().item<double>(); }

/// By their numbers in the whole network.
std::vector<at::Tensor> buffers(const std::vector<testing::Outcome>& outcomes) {
  std::vector<at::Tensor> all;
  for (const auto& outcome : outcomes)
    for (std::size_t i = 0; i < outcome.buffers.size(); ++i) {
      const auto number = static_cast<std::size_t>(outcome.buffer_numbers[i]);
      all.resize(std::max(all.size(), number + 1));
      all[number] = outcome.buffers[i];
    }
  return all;
}

const std::vector<std::string> kForms{"schedule=gpipe", "schedule=1f1b,recompute=always", "schedule=zb-h1", "schedule=zbv,recompute=except-last"};

// At a rate of 0 the first batch norm is given, in every step, what it is given in the training of one worker. Batches of 6 from 11 samples: micro-batches are
// of unequal sizes.
TEST(DeferredStatistics, AreThoseOfTheWholeBatch) {
  testing::Trial trial{"resnet", "", 6, 2};
  trial.network = testing::wide_resnet;
  trial.rate = 0;
  const auto reference = testing::train_rank(trial, 0, 1, nullptr);
  for (const auto& form : kForms) {
    trial.strategy = fmt::format("pipeline[{},micro=4,batch-norm=deferred]", form);
    const auto deferred = buffers(testing::train(trial, 2));
    ASSERT_EQ(deferred.size(), reference.buffers.size());
    for (const std::size_t which : {0U, 1U}) EXPECT_LT(apart(deferred[which], reference.buffers[which]), 1e-13) << form << " " << which;
  }
  trial.strategy = "pipeline[micro=4]";
  const auto each = buffers(testing::train(trial, 2));
  for (const std::size_t which : {0U, 1U}) EXPECT_GT(apart(each[which], reference.buffers[which]), 1e-6) << which;
}

// With one micro-batch it is what batch norm does by itself, in every layer, while the network learns.
TEST(DeferredStatistics, OfOneMicroBatchAreBatchNormsOwn) {
  testing::Trial trial{"resnet", "", 4, 2};
  trial.network = testing::wide_resnet;
  const auto reference = testing::train_rank(trial, 0, 1, nullptr);
  for (const auto* form : {"schedule=gpipe,recompute=always", "schedule=zb-h1"}) {
    trial.strategy = fmt::format("pipeline[{},micro=1,batch-norm=deferred]", form);
    const auto outcomes = testing::train(trial, 2);
    testing::expect_equal(outcomes, reference, form);
    const auto got = buffers(outcomes);
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_LT(apart(got[i], reference.buffers[i]), 1e-12) << form << " " << i;
  }
}

// Normalisation is by micro-batch whatever becomes of the running statistics, and so are the gradients.
TEST(DeferredStatistics, ChangeNothingElse) {
  testing::Trial trial{"resnet", "pipeline[micro=2]", 4, 2};
  trial.network = testing::wide_resnet;
  const auto each = testing::whole(testing::train(trial, 2), "micro");
  trial.strategy = "pipeline[micro=2,batch-norm=deferred]";
  EXPECT_TRUE(testing::same_bits(testing::whole(testing::train(trial, 2), "deferred"), each));
}

TEST(DeferredStatistics, OfAStepThatFailedAreForgotten) {
  Network network(builtin_models().at("resnet18").make(parse_spec("resnet18"), {3, 32, 32, 10}), {at::kDouble});
  DeferredStatistics deferred(network);
  std::vector<at::Tensor> before;
  for (const auto& buffer : network.buffers()) before.push_back(buffer.clone());
  const auto input = made_up_samples(3, {3, 32, 32, 10}, at::kDouble).input;
  deferred.begin_step();
  network.forward(input, true);
  deferred.take(0, 5, 3);
  deferred.begin_step();
  deferred.end_step();
  EXPECT_TRUE(testing::same_bits(network.buffers(), before));
}

TEST(DeferredStatistics, AreAskedForByName) {
  const auto graph = builtin_models().at("resnet18").make(parse_spec("resnet18"), {3, 32, 32, 10});
  EXPECT_FALSE(pipeline({graph, 2, 6, 4, parse_spec("pipeline"), {}}).deferred_statistics);
  EXPECT_TRUE(pipeline({graph, 2, 6, 4, parse_spec("pipeline[batch-norm=deferred]"), {}}).deferred_statistics);
  try {
    pipeline({graph, 2, 6, 4, parse_spec("pipeline[batch-norm=global]"), {}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("got 'global', expected one of: micro, deferred"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace ddl
