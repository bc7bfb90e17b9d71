#include "ddl/train/executor.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <optional>

#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/measure/ledger.h"
#include "ddl/nn/builtin.h"
#include "ddl/nn/narrow_networks_testing.h"
#include "ddl/strategy/builtin.h"
#include "ddl/train/trial_testing.h"

// Conformance of strategies: whatever the number of workers, k steps give the parameters that one worker gets from the
// same global batches. Ranks are threads of this process over inproc.
namespace ddl {
namespace {

using namespace testing;

// Batches of 6 from 11 samples: the last of each epoch is ragged, shares are unequal, and with 8 ranks some are empty.
TEST(StrategyConformance, EqualsTheBigBatchInFp64) {
  const auto reference = train_rank({}, 0, 1, nullptr);
  // Every strategy there is, as it comes, and forms of those that have options.
  auto strategies = builtin_strategies().names();
  // By design it goes its own way between averagings: local_test.cpp says where to.
  std::erase(strategies, "local");
  for (const auto* form : {"data[bucket=40kB]", "data[overlap=off]", "data[first-bucket=1B,bucket=1B]", "data[collective=halving-doubling]"})
    strategies.emplace_back(form);
  for (const auto& strategy : strategies)
    for (const int ranks : {1, 2, 3, 4, 8}) {
      if (strategy == "single" && ranks > 1) continue;  // it refuses them, as strategy_test shows
      Trial trial;
      trial.strategy = strategy;
      expect_equal(train(trial, ranks), reference, fmt::format("{} {}", strategy, ranks));
    }
}

// Workers have unequal numbers of words, so that weighting by samples or by workers gives something else; dropout draws by
// sample, so that it falls alike however the batch is divided; the table of words is used three times.
TEST(StrategyConformance, EqualsTheBigBatchWithWordsAndDropoutInFp64) {
  Trial trial{"transformer[hidden=32,heads=4,layers=1,dropout=0.1]"};
  trial.label_smoothing = 0.1;
  const auto reference = train_rank(trial, 0, 1, nullptr);
  for (const int micro_batches : {1, 2})
    for (const int ranks : {1, 2, 3, 8}) {
      trial.accumulate = micro_batches;
      expect_equal(train(trial, ranks), reference, fmt::format("{} {}", ranks, micro_batches));
    }
  Trial dry = trial;
  dry.model = "transformer[hidden=32,heads=4,layers=1,dropout=0]";
  EXPECT_GT(relative_error(train_rank(dry, 0, 1, nullptr).parameters, reference.parameters), 1e-6) << "dropout does nothing";
}

// Whoever has more samples counts for more: parts of 4 and 2, of 2, 1 and 3, in micro-batches too, and where words are what is weighed.
TEST(StrategyConformance, SharesThatAreNotAlikeEqualTheBigBatchInFp64) {
  for (const auto* model : {"lenet", "transformer[hidden=32,heads=4,layers=1,dropout=0.1]"})
    for (const auto& [form, ranks] : {std::pair{"data[shares=2/1]", 2}, {"data[shares=3/2/4]", 3}, {"data[shares=1/5,overlap=off]", 2}})
      for (const int micro_batches : {1, 2}) {
        Trial trial{model};
        trial.accumulate = micro_batches;
        const auto reference = train_rank(trial, 0, 1, nullptr);
        trial.strategy = form;
        expect_equal(train(trial, ranks), reference, fmt::format("{} {} {}", model, form, micro_batches));
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
  Trial trial{"resnet", "data", 4, 2, at::kDouble, Kernels::fast};
  trial.network = wide_resnet;
  constexpr int kRanks = 2;
  const auto outcomes = train(trial, kRanks);

  const Waves data;
  Network network(wide_resnet({}, data.shape()), {at::kDouble, at::kCPU, Kernels::fast, 7});
  const auto optimizer = make_optimizer({"sgd", {}}, network.parameters(), {0.9, 0.01});
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
      optimizer->update(i, network.parameters()[i].grad(), kRate);
      network.parameters()[i].mutable_grad().reset();
    }
  }
  for (const auto& outcome : outcomes) EXPECT_LT(relative_error(outcome.parameters, network.parameters()), 1e-12);
}

// What is added up over micro-batches, workers or both is the gradient of the big batch: with 7 micro-batches of at most
// 6 samples some are empty.
TEST(Accumulation, EqualsTheBigBatchInFp64) {
  const auto reference = train_rank({}, 0, 1, nullptr);
  for (const int micro_batches : {2, 4, 7}) {
    Trial trial;
    trial.accumulate = micro_batches;
    expect_equal({train_rank(trial, 0, 1, nullptr)}, reference, fmt::format("alone {}", micro_batches));
    for (const auto* strategy : {"data", "data[first-bucket=1B,bucket=1B]", "data[overlap=off]"})
      for (const int ranks : {2, 3}) {
        trial.strategy = strategy;
        expect_equal(train(trial, ranks), reference, fmt::format("{} {} {}", strategy, ranks, micro_batches));
      }
  }
}

TEST(OptimizerConformance, EveryOneEqualsTheBigBatchInFp64) {
  Trial sgd;
  sgd.label_smoothing = 0.1;
  const auto plain = train_rank(sgd, 0, 1, nullptr);
  for (const auto& name : builtin_optimizers().names()) {
    auto trial = sgd;
    trial.optimizer = name;
    const auto reference = train_rank(trial, 0, 1, nullptr);
    trial.accumulate = 2;
    const auto outcomes = train(trial, 2);
    // Adam's direction magnifies the rounding of gradients that are nearly 0.
    EXPECT_LT(relative_error(outcomes[0].parameters, reference.parameters), name == "sgd" || name == "lars" ? 1e-12 : 1e-7) << name;
    EXPECT_TRUE(same_bits(outcomes[0].parameters, outcomes[1].parameters)) << name;
    if (name == "sgd") continue;
    EXPECT_GT(relative_error(outcomes[0].parameters, plain.parameters), 1e-6) << name << " does what sgd does";
  }
}

TEST(Recompute, LeavesTrainingAsItIsBitForBit) {
  for (const auto* model : {"lenet", "resnet", "transformer[hidden=32,heads=4,layers=1,dropout=0.1]"})
    for (const int micro_batches : {1, 2}) {
      Trial trial{model, "data", 4, 2, at::kFloat, Kernels::fast, micro_batches};
      if (trial.model == "resnet") trial.network = wide_resnet;
      const auto plain = train(trial, 2);
      trial.recompute = true;
      const auto again = train(trial, 2);
      for (std::size_t rank = 0; rank < 2; ++rank) {
        EXPECT_TRUE(same_bits(again[rank].parameters, plain[rank].parameters)) << model << " " << micro_batches;
        EXPECT_EQ(again[rank].loss, plain[rank].loss) << model << " " << micro_batches;
      }
    }
}

/// One step of plain SGD moves the parameters by rate * gradient: how they moved says what the gradient was. In fp64.
std::vector<at::Tensor> gradient_of_one_step(Trial trial, int ranks) {
  trial.optimizer = "sgd[momentum=0]";
  trial.steps = 0;
  const auto start = train_rank(trial, 0, 1, nullptr).parameters;
  trial.steps = 1;
  const auto outcomes = train(trial, ranks);
  EXPECT_EQ(outcomes.back().updates.clipped, trial.clip > 0 && trial.clip < 1 ? 1 : 0);
  for (const auto& outcome : outcomes) EXPECT_TRUE(same_bits(outcome.parameters, outcomes[0].parameters));
  std::vector<at::Tensor> gradient;
  for (std::size_t i = 0; i < start.size(); ++i) {
    const auto from = start[i].to(at::kDouble), to = outcomes[0].parameters[i].to(at::kDouble);
    gradient.push_back((from - to) / kRate - 0.01 * from);  // weight decay comes after clipping
  }
  return gradient;
}

double norm_of(const std::vector<at::Tensor>& tensors) {
  double squares = 0;
  for (const auto& tensor : tensors) squares += tensor.pow(2).sum().item<double>();
  return std::sqrt(squares);
}

TEST(Clipping, LimitsTheNormOfTheWholeGradientAlikeOnAllRanks) {
  const auto moved = [](double clip, int ranks) {
    Trial trial;
    trial.clip = clip;
    return norm_of(gradient_of_one_step(trial, ranks));
  };
  for (const int ranks : {1, 2, 3}) {
    const double whole = moved(0, ranks);
    EXPECT_GT(whole, 0.02) << "the gradient is too small for this test";
    EXPECT_NEAR(moved(0.01, ranks), 0.01, 2e-6) << ranks;
    EXPECT_NEAR(moved(1000, ranks), whole, 1e-12) << ranks;
  }
}

// With the loss scaled and the gradient a sum over micro-batches, of which some are empty, and workers: what counts is the gradient of
// the mean. Clipped, it has its limit's norm and the direction that fp64 gives; under the limit it is as it was.
TEST(Clipping, JudgesTheSumOfMicroBatchesWithoutTheLossScale) {
  const auto exact = gradient_of_one_step({}, 1);
  const double whole = norm_of(exact);
  for (const auto& [precision, near] : {std::pair{"fp64", 1e-9}, {"fp16", 0.01}})
    for (const int micro_batches : {1, 4}) {
      Trial trial;
      trial.accumulate = micro_batches;
      if (std::string(precision) == "fp16") {
        trial.type = at::kFloat;
        trial.precision = precision;
      }
      trial.clip = 0.01;
      auto clipped = gradient_of_one_step(trial, 2);
      EXPECT_NEAR(norm_of(clipped), 0.01, 0.01 * near + 2e-6) << precision << " " << micro_batches;
      for (auto& tensor : clipped) tensor = tensor * (whole / 0.01);
      EXPECT_LT(relative_error(clipped, exact), 2 * near + 1e-4) << precision << " " << micro_batches;
      trial.clip = 1000;
      EXPECT_LT(relative_error(gradient_of_one_step(trial, 2), exact), 2 * near) << precision << " " << micro_batches;
    }
}

TEST(MixedPrecision, KeepsParametersInFp32AndStaysNearIt) {
  Trial exact;
  exact.type = at::kFloat;
  const auto reference = train_rank(exact, 0, 1, nullptr);
  for (const auto* precision : {"bf16", "fp16"})
    for (const int ranks : {1, 2}) {
      auto trial = exact;
      trial.precision = precision;
      const auto outcomes = train(trial, ranks);
      EXPECT_EQ(outcomes[0].parameters[0].scalar_type(), at::kFloat);
      for (const auto& outcome : outcomes) EXPECT_TRUE(same_bits(outcome.parameters, outcomes[0].parameters)) << precision << " " << ranks;
      const double error = relative_error(outcomes[0].parameters, reference.parameters);
      EXPECT_GT(error, 0) << precision << " computed in fp32";
      EXPECT_LT(error, 0.01) << precision << " " << ranks;
      EXPECT_EQ(outcomes[0].updates.updates, trial.steps);
      EXPECT_EQ(outcomes[0].updates.loss_scale, std::string(precision) == "fp16" ? 65536 : 1);
    }
}

// In the first step one of two ranks has the bright sample: both leave that step out, though the other's own gradients
// are finite, and go on with half the scale.
TEST(MixedPrecision, OneRanksOverflowSkipsTheStepOnAll) {
  Trial trial;
  trial.type = at::kFloat;
  trial.precision = "fp16";
  trial.optimizer = "sgd[momentum=0]";
  trial.steps = 1;
  auto before = trial;
  before.steps = 0;
  const auto start = train_rank(before, 0, 1, nullptr).parameters;
  const Sampler sampler(kSamples, trial.batch, 2, true, 3);
  EXPECT_EQ(train(trial, 2)[0].updates.skipped, 0) << "without a bright sample";
  for (const double clip : {0.0, 0.01})
    for (const int micro_batches : {1, 4})
      for (const int rank : {0, 1}) {
        trial.clip = clip;
        trial.accumulate = micro_batches;
        trial.bright = sampler.share(0, rank).indices[0];
        for (const auto& outcome : train(trial, 2)) {
          EXPECT_EQ(outcome.updates.skipped, 1) << "bright on rank " << rank << ", " << micro_batches << " micro-batches, clip " << clip;
          EXPECT_EQ(outcome.updates.updates, 0);
          EXPECT_EQ(outcome.updates.clipped, 0);
          EXPECT_EQ(outcome.updates.loss_scale, 32768);
          EXPECT_TRUE(same_bits(outcome.parameters, start));
        }
      }
}

// Every device leads where the processor leads, whatever waits for whatever on the way: many small buckets, one big one, buckets after backward,
// micro-batches, updates that need the whole gradient, recomputation, half precision. On the delayed device a wait left out, or a copy
// started too early, gives NaNs or other parameters.
TEST(DeviceConformance, TrainingEqualsTheBigBatchOnTheProcessorInFp64) {
  std::vector<Trial> trials(7);
  trials[1].strategy = "data[first-bucket=1B,bucket=1B]";
  trials[1].accumulate = 2;
  trials[2].strategy = "data[overlap=off]";
  trials[2].accumulate = 7;
  trials[3].clip = 0.01;
  trials[3].strategy = "data[bucket=40kB]";
  trials[4].recompute = true;
  trials[5].model = "transformer[hidden=32,heads=4,layers=1,dropout=0.1]";
  trials[5].label_smoothing = 0.1;
  trials[6].optimizer = "lars[trust=0.02,vectors=on]";
  trials[6].aten = true;
  for (auto trial : trials) {
    trial.device = "cpu";
    auto alone = trial;
    alone.accumulate = 1;
    const auto reference = train_rank(alone, 0, 1, nullptr);
    for (const auto& device : test_devices()) {
      trial.device = device;
      const auto what = device + " " + trial.model + " " + trial.strategy + " " + trial.optimizer;
      const auto by_itself = train_rank(trial, 0, 1, nullptr);
      EXPECT_LT(relative_error(by_itself.parameters, reference.parameters), 1e-12) << what;
      for (const int ranks : {2, 3, 8}) {  // of 8 some have no samples
        const auto outcomes = train(trial, ranks);
        expect_equal(outcomes, reference, fmt::format("{} {}", what, ranks));
        for (const auto& outcome : outcomes) {
          EXPECT_EQ(outcome.updates.clipped, reference.updates.clipped) << what;
          EXPECT_EQ(outcome.faults, 0) << what << ": memory was written over while it was copied from";
          EXPECT_EQ(outcome.pinned, 0) << what;
        }
        if (device == "delayed") {
          EXPECT_EQ(outcomes[0].read_in_place > 0, trial.model.starts_with("lenet")) << what << ": images are read where the loader put them";
        }
      }
    }
  }
}

TEST(DeviceConformance, CompressedGradientsTrainAsOnTheProcessor) {
  Trial trial;
  trial.type = at::kFloat;
  trial.compression = "top-k[ratio=0.1]";
  const auto reference = train(trial, 2);
  for (const auto& device : test_devices()) {
    trial.device = device;
    const auto outcomes = train(trial, 2);
    EXPECT_TRUE(same_bits(outcomes[0].parameters, outcomes[1].parameters)) << device;
    EXPECT_LT(relative_error(outcomes[0].parameters, reference[0].parameters), device.starts_with("cuda") ? 1e-2 : 1e-12) << device;
    EXPECT_EQ(outcomes[0].faults, 0) << device;
  }
}

// Autocast on the device, the loss scaled, one rank's overflow everyone's.
TEST(DeviceConformance, MixedPrecisionSkipsAndScalesAlike) {
  for (const auto& device : test_devices())
    for (const auto* precision : {"bf16", "fp16"}) {
      Trial trial;
      trial.type = at::kFloat;
      trial.device = device;
      trial.optimizer = "sgd[momentum=0]";
      auto exact = trial;
      exact.device = "cpu";
      const auto reference = train_rank(exact, 0, 1, nullptr);
      trial.precision = precision;
      const auto outcomes = train(trial, 2);
      const double error = relative_error(outcomes[0].parameters, reference.parameters);
      EXPECT_GT(error, 1e-7) << device << " " << precision << " computed in fp32";
      EXPECT_LT(error, 0.01) << device << " " << precision;
      EXPECT_TRUE(same_bits(outcomes[0].parameters, outcomes[1].parameters)) << device << " " << precision;
      if (std::string(precision) == "bf16") continue;
      trial.steps = 1;
      trial.bright = Sampler(kSamples, trial.batch, 2, true, 3).share(0, 1).indices[0];
      for (const auto& outcome : train(trial, 2)) {
        EXPECT_EQ(outcome.updates.skipped, 1) << device;
        EXPECT_EQ(outcome.updates.loss_scale, 32768) << device;
      }
    }
}

TEST(DeviceConformance, SpansLieWithinTheirStepInOrderAndAddUp) {
  for (const auto& device : test_devices()) {
    Trial trial;
    trial.device = device;
    const auto before = now();
    const auto outcomes = train(trial, 2);
    const auto after = now();
    Trace all;
    for (const auto& outcome : outcomes) all.insert(all.end(), outcome.trace.begin(), outcome.trace.end());
    for (int worker = 0; worker < 2; ++worker) {
      const auto& own = outcomes[static_cast<std::size_t>(worker)].trace;
      std::map<Cause, int> count;
      Nanoseconds last = before;
      for (const auto& span : own) {
        EXPECT_LE(span.begin, span.end) << device;
        EXPECT_GE(span.begin, before - 1'000'000) << device;
        EXPECT_LE(span.end, after + 1'000'000) << device;
        if (span.stream == Stream::compute) ++count[span.cause];
        if (span.task < 0 || span.stream != Stream::compute) continue;
        // Tasks follow each other; clocks of a device and the host agree to tens of microseconds.
        EXPECT_GE(span.begin, last - 100'000) << device << " " << static_cast<int>(span.cause);
        last = span.end;
      }
      for (const auto cause : {Cause::load, Cause::forward, Cause::backward, Cause::update}) EXPECT_EQ(count[cause], 4) << device;
      EXPECT_GE(count[Cause::communication], 4) << device;
      EXPECT_GE(count[Cause::copy], 4) << device;
      const auto ledger = fold(all, worker, own.front().begin, last);
      EXPECT_GT(ledger[Cause::backward], 0) << device;
      EXPECT_GE(ledger[Cause::residual], -1e-9) << device;
    }
  }
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

/// Tells what it is given; moves nothing.
class Watching final : public Optimizer {
 public:
  explicit Watching(std::vector<at::Tensor> parameters) : Optimizer("watching", std::move(parameters), 0) {}
  std::vector<std::pair<const std::byte*, std::size_t>> given;

 private:
  void apply(const Update& u) override { given.emplace_back(static_cast<const std::byte*>(u.gradient.const_data_ptr()), u.gradient.nbytes()); }
  void apply_aten(Updates&) override { FAIL(); }
};

TEST(Executor, WhatIsReducedIsWhatTheOptimizerReads) {
  on_ranks(2, [](Communicator& communicator) {
    const int rank = communicator.rank();
    const Waves data;
    Network network(builtin_models().at("lenet").make({"lenet", {}}, data.shape()), {});
    Watching optimizer(network.parameters());
    const auto device = make_device("cpu");
    Executor executor(network, optimizer, *device, &communicator, rank, {data.shape()}, {});
    executor.adopt(builtin_strategies().at("data").make({network.graph(), 2, 3, 4, parse_spec("data[bucket=64KiB,first-bucket=16KiB]"), {}}));
    const Sampler sampler(data.size(), 6, 2, true, 3);
    Loader loader(data, [&](std::int64_t step) { return sampler.share(step, rank); }, 0, 1, {0, 1});
    executor.step(0, [&] { return loader.next(); }, kRate, false);
    communicator.barrier().wait();
    const auto& buckets = *executor.buckets();
    EXPECT_GT(executor.role().buckets.size(), 2U);
    EXPECT_EQ(optimizer.given.size(), network.parameters().size());
    for (const auto& [begin, bytes] : optimizer.given) {
      bool inside = false;
      for (std::size_t b = 0; b < executor.role().buckets.size(); ++b) {
        const auto buffer = buckets.buffer(static_cast<int>(b));
        inside = inside || (begin >= buffer.data && begin + bytes <= buffer.data + buffer.elements * sizeof(float));
      }
      EXPECT_TRUE(inside) << bytes << " bytes of a gradient are read from elsewhere";
    }
    // At most one pass over gradients before that.
    EXPECT_LE(buckets.copied_bytes(), buckets.gradient_bytes());
    return 0;
  });
}

TEST(Executor, OneVoteStopsAllWorkers) {
  const auto last = on_ranks(2, [](Communicator& communicator) {
    const int rank = communicator.rank();
    const Waves data;
    Network network(builtin_models().at("lenet").make({"lenet", {}}, data.shape()), {});
    const auto optimizer = make_optimizer({"sgd", {}}, network.parameters());
    const auto device = make_device("cpu");
    Executor executor(network, *optimizer, *device, &communicator, rank, {data.shape()}, {});
    executor.adopt(builtin_strategies().at("data").make({network.graph(), 2, 3, 4, {"data", {}}, {}}));
    const Sampler sampler(data.size(), 6, 2, true, 3);
    Loader loader(data, [&](std::int64_t step) { return sampler.share(step, rank); }, 0, 2, {0, 1});
    EXPECT_FALSE(executor.step(0, [&] { return loader.next(); }, kRate, false).stop);
    const auto result = executor.step(1, [&] { return loader.next(); }, kRate, rank == 1);
    communicator.barrier().wait();
    return result;
  });
  EXPECT_TRUE(last[0].stop);
  EXPECT_TRUE(last[1].stop);
}

TEST(Executor, SaysWhenTheLossIsNotFinite) {
  const Waves data;
  Network network(builtin_models().at("lenet").make({"lenet", {}}, data.shape()), {});
  { const c10::NoGradGuard guard; network.parameters()[0].fill_(std::nanf("")); }
  const auto optimizer = make_optimizer({"sgd", {}}, network.parameters());
  const auto device = make_device("cpu");
  Executor executor(network, *optimizer, *device, nullptr, 0, {data.shape()}, {});
  executor.adopt(builtin_strategies().at("single").make({network.graph(), 1, 6, 4, {"single", {}}, {}}));
  const Sampler sampler(data.size(), 6, 1, true, 3);
  Loader loader(data, [&](std::int64_t step) { return sampler.share(step, 0); }, 0, 1, {0, 1});
  try {
    executor.step(0, [&] { return loader.next(); }, kRate, false);
    FAIL() << "NaN went through";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument);
    EXPECT_STREQ(error.what(), "[executor] loss is not finite at step 0; got nan");
  }
}

std::string said(const std::optional<Error>& error) { return error ? error->what() : ""; }

// One sample that is NaN lies on one rank, which alone has a loss that is NaN: all of them end in the step that had it, not one later.
TEST(Executor, OneRanksLossThatIsNotFiniteEndsAllInThatStep) {
  constexpr int kRanks = 2;
  for (const auto& device : test_devices())
    for (const int micro_batches : {1, 2})
      for (const std::int64_t step : {0, 2})
        for (const int rank : {0, 1}) {
          Trial trial;
          trial.steps = step + 2;
          trial.device = device;
          trial.accumulate = micro_batches;
          trial.brightness = std::nanf("");
          // Of the first epoch, so that it comes once.
          trial.batch = 3;
          trial.bright = Sampler(kSamples, trial.batch, kRanks, true, 3).share(step, rank).indices.at(0);
          const auto ended = testing::run_group("inproc", kRanks, [&](Communicator& communicator) { train_rank(trial, communicator.rank(), kRanks, &communicator); },
                                                {Seconds{60}});
          for (int own = 0; own < kRanks; ++own)
            EXPECT_EQ(said(ended[static_cast<std::size_t>(own)]), fmt::format("[executor] loss is not finite at step {}; got {}", step, own == rank ? "nan" : "that of another worker"))
                << device << ", rank " << own << ", NaN on rank " << rank << ", " << micro_batches << " micro-batches";
        }
}

}  // namespace
}  // namespace ddl
