#include "ddl/train/executor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <thread>

#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/measure/ledger.h"
#include "ddl/nn/builtin.h"
#include "ddl/strategy/builtin.h"
#include "ddl/transport/builtin.h"

// Conformance of strategies: whatever the number of workers, k steps give the parameters that one worker gets from the
// same global batches. Ranks are threads of this process over inproc.
namespace ddl {
namespace {

constexpr std::int64_t kSamples = 11;
constexpr double kRate = 0.1;

/// Smooth images that depend on the class; the same for every rank.
class Waves final : public Dataset {
 public:
  std::int64_t size() const override { return kSamples; }
  SampleShape shape() const override { return {1, 28, 28, 10}; }
  std::int64_t read(std::int64_t index, float* image) const override {
    for (int i = 0; i < 784; ++i) image[i] = std::sin(0.01F * static_cast<float>((index + 1) * (i + 3)));
    return index % 10;
  }
  std::string digest() const override { return "waves"; }
};

struct Trial {
  std::string model = "lenet";
  std::string strategy = "data";
  std::int64_t batch = 6;
  std::int64_t steps = 4;
  at::ScalarType type = at::kDouble;
  Kernels kernels = Kernels::fast;
};

struct Outcome {
  std::vector<at::Tensor> parameters;
  double loss = 0;  ///< summed over workers and steps
  Trace trace;
};

Outcome train_rank(const Trial& trial, int rank, int ranks, Communicator* communicator) {
  const Waves data;
  Network network(builtin_models().at(trial.model).make({trial.model, {}}, data.shape()), {trial.type, at::kCPU, trial.kernels, 7});
  Sgd optimizer(network.parameters(), {0.9, 0.01});
  Executor executor(network, optimizer, communicator, rank, {});
  const auto spec = parse_spec(ranks == 1 && communicator == nullptr ? "single" : trial.strategy);
  const auto plan = [&](std::vector<int> order) {
    return builtin_strategies().at(spec.name).make({network.graph(), ranks, trial.batch, 8, spec, std::move(order)});
  };
  executor.adopt(plan({}));
  const Sampler sampler(data.size(), trial.batch, ranks, true, 3);
  Loader loader(data, [&](std::int64_t step) { return sampler.share(step, rank); }, 0, trial.steps, {0, 1});
  Outcome outcome;
  for (std::int64_t step = 0; step < trial.steps; ++step) {
    outcome.loss += executor.step(step, [&] { return loader.next(); }, kRate, false).loss;
    if (step == 0 && communicator) {
      auto order = executor.observed_order();
      std::vector<std::int64_t> shared(order.begin(), order.end());
      communicator->broadcast({reinterpret_cast<std::byte*>(shared.data()), shared.size(), ElementType::int64}, 0).wait();
      executor.adopt(plan({shared.begin(), shared.end()}));
    }
  }
  for (auto& parameter : network.parameters()) outcome.parameters.push_back(parameter.detach().clone());
  outcome.trace = executor.take_trace();
  if (communicator) communicator->barrier().wait();
  return outcome;
}

std::vector<Outcome> train(const Trial& trial, int ranks) {
  auto rendezvous = in_process_rendezvous(ranks);
  std::vector<Outcome> outcomes(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      Communicator communicator(builtin_transports().at("inproc").make(*rendezvous[static_cast<std::size_t>(rank)], {}), Seconds{60});
      outcomes[static_cast<std::size_t>(rank)] = train_rank(trial, rank, ranks, &communicator);
    });
  for (auto& thread : threads) thread.join();
  return outcomes;
}

double relative_error(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]).pow(2).sum().item<double>();
    size += b[i].pow(2).sum().item<double>();
  }
  return std::sqrt(difference / size);
}

bool same_bits(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!at::equal(a[i], b[i])) return false;
  return true;
}

// Batches of 6 from 11 samples: the last of each epoch is ragged, shares are unequal, and with 8 ranks some are empty.
TEST(StrategyConformance, EqualsTheBigBatchInFp64) {
  const auto reference = train_rank({}, 0, 1, nullptr);
  // Every strategy there is, as it comes, and forms of those that have options.
  auto strategies = builtin_strategies().names();
  for (const auto* form : {"data[bucket=40kB]", "data[overlap=off]", "data[first-bucket=1B,bucket=1B]", "data[collective=halving-doubling]"})
    strategies.emplace_back(form);
  for (const auto& strategy : strategies)
    for (const int ranks : {1, 2, 3, 4, 8}) {
      if (strategy == "single" && ranks > 1) continue;  // it refuses them, as strategy_test shows
      Trial trial;
      trial.strategy = strategy;
      const auto outcomes = train(trial, ranks);
      double loss = 0;
      for (const auto& outcome : outcomes) {
        EXPECT_LT(relative_error(outcome.parameters, reference.parameters), 1e-12) << strategy << " " << ranks;
        EXPECT_TRUE(same_bits(outcome.parameters, outcomes[0].parameters)) << strategy << " " << ranks;
        loss += outcome.loss;
      }
      EXPECT_NEAR(loss, reference.loss, 1e-12 * std::abs(reference.loss)) << strategy << " " << ranks;
    }
}

TEST(StrategyConformance, RepeatsBitByBit) {
  const Trial trial{"lenet", "data", 6, 4, at::kFloat, Kernels::fast};
  EXPECT_TRUE(same_bits(train(trial, 3)[0].parameters, train(trial, 3)[2].parameters));
}

TEST(StrategyConformance, Fp32StaysWithinItsRounding) {
  Trial trial;
  trial.type = at::kFloat;
  const auto reference = train_rank(trial, 0, 1, nullptr);
  for (const int ranks : {2, 3})
    EXPECT_LT(relative_error(train(trial, ranks)[0].parameters, reference.parameters), 1e-5) << ranks;
}

// Batch norm couples the samples of a batch. Under `data` each worker normalises with its own samples' statistics, so
// that the reference is one worker that accumulates the gradients of the same slices.
TEST(StrategyConformance, BatchNormUsesLocalStatistics) {
  Trial trial{"resnet18", "data", 4, 2, at::kDouble, Kernels::fast};
  constexpr int kRanks = 2;
  const auto outcomes = train(trial, kRanks);

  const Waves data;
  Network network(builtin_models().at("resnet18").make({"resnet18", {}}, data.shape()), {at::kDouble, at::kCPU, Kernels::fast, 7});
  Sgd optimizer(network.parameters(), {0.9, 0.01});
  const Sampler sampler(data.size(), trial.batch, kRanks, true, 3);
  for (std::int64_t step = 0; step < trial.steps; ++step) {
    for (int rank = 0; rank < kRanks; ++rank) {
      const auto share = sampler.share(step, rank);
      const auto n = static_cast<std::int64_t>(share.indices.size());
      auto images = at::empty({n, 1, 28, 28});
      auto labels = at::empty({n}, at::kLong);
      for (std::int64_t i = 0; i < n; ++i)
        labels[i] = data.read(share.indices[static_cast<std::size_t>(i)], images[i].data_ptr<float>());
      auto loss = at::cross_entropy_loss(network.forward({images.to(at::kDouble)}, true).logits, labels, {}, at::Reduction::Sum);
      (loss / static_cast<double>(share.global_samples)).backward();
    }
    for (std::size_t i = 0; i < network.parameters().size(); ++i) {
      optimizer.update(i, network.parameters()[i].grad(), kRate);
      network.parameters()[i].mutable_grad().reset();
    }
  }
  for (const auto& outcome : outcomes) EXPECT_LT(relative_error(outcome.parameters, network.parameters()), 1e-12);
}

TEST(Executor, LeavesASpanForEveryTaskAndALedgerThatAddsUp) {
  const auto outcomes = train({}, 2);
  Trace all;
  for (const auto& outcome : outcomes) all.insert(all.end(), outcome.trace.begin(), outcome.trace.end());
  for (int worker = 0; worker < 2; ++worker) {
    const auto& own = outcomes[static_cast<std::size_t>(worker)].trace;
    Nanoseconds begin = own.front().begin, end = 0;
    std::vector<int> collectives;
    for (const auto& span : own) {
      begin = std::min(begin, span.begin);
      end = std::max(end, span.end);
      EXPECT_LE(span.begin, span.end);
      if (span.stream == Stream::communication) collectives.push_back(span.task);
    }
    EXPECT_EQ(collectives.size(), 4U);  // one bucket a step
    const auto ledger = fold(all, worker, begin, end);
    EXPECT_NEAR(std::accumulate(ledger.seconds.begin(), ledger.seconds.end(), 0.0), ledger.wall, 1e-12);
    EXPECT_GT(ledger[Cause::forward], 0);
    EXPECT_GT(ledger[Cause::backward], 0);
    EXPECT_GT(ledger[Cause::update], 0);
    EXPECT_GT(ledger[Cause::copy], 0);
  }
}

TEST(Executor, OneVoteStopsAllWorkers) {
  auto rendezvous = in_process_rendezvous(2);
  std::vector<std::thread> threads;
  std::array<bool, 2> stopped{};
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      Communicator communicator(builtin_transports().at("inproc").make(*rendezvous[static_cast<std::size_t>(rank)], {}), Seconds{60});
      const Waves data;
      Network network(builtin_models().at("lenet").make({"lenet", {}}, data.shape()), {});
      Sgd optimizer(network.parameters(), {});
      Executor executor(network, optimizer, &communicator, rank, {});
      executor.adopt(builtin_strategies().at("data").make({network.graph(), 2, 3, 4, {"data", {}}, {}}));
      const Sampler sampler(data.size(), 6, 2, true, 3);
      Loader loader(data, [&](std::int64_t step) { return sampler.share(step, rank); }, 0, 2, {0, 1});
      EXPECT_FALSE(executor.step(0, [&] { return loader.next(); }, kRate, false).stop);
      stopped[static_cast<std::size_t>(rank)] = executor.step(1, [&] { return loader.next(); }, kRate, rank == 1).stop;
      communicator.barrier().wait();
    });
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(stopped[0]);
  EXPECT_TRUE(stopped[1]);
}

TEST(Executor, SaysWhenTheLossIsNotFinite) {
  const Waves data;
  Network network(builtin_models().at("lenet").make({"lenet", {}}, data.shape()), {});
  { const c10::NoGradGuard guard; network.parameters()[0].fill_(std::nanf("")); }
  Sgd optimizer(network.parameters(), {});
  Executor executor(network, optimizer, nullptr, 0, {});
  executor.adopt(builtin_strategies().at("single").make({network.graph(), 1, 6, 4, {"single", {}}, {}}));
  const Sampler sampler(data.size(), 6, 1, true, 3);
  Loader loader(data, [&](std::int64_t step) { return sampler.share(step, 0); }, 0, 1, {0, 1});
  EXPECT_THROW(executor.step(0, [&] { return loader.next(); }, kRate, false), Error);
}

}  // namespace
}  // namespace ddl
