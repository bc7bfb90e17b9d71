#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "ddl/nn/builtin.h"
#include "ddl/strategy/batch_shares.h"
#include "ddl/strategy/builtin.h"
#include "ddl/strategy/split_parts.h"
#include "ddl/train/assemble.h"
#include "ddl/train/device_testing.h"
#include "ddl/train/executor.h"
#include "ddl/train/in_process.h"
#include "ddl/train/pinned_memory.h"
#include "ddl/train/ranks_testing.h"

// Training of a small network by any strategy, on threads of this process, held against one worker that sees the same global batches.
namespace ddl::testing {

inline constexpr std::int64_t kSamples = 11;
inline constexpr double kRate = 0.1;

/// Smooth images that depend on the class; the same for every rank. One of them may be `bright`: 300 times as bright, with the loss
/// scaled as at the start, its gradient overflows fp16; NaN times as bright, so is its loss.
class Waves final : public Dataset {
 public:
  explicit Waves(std::int64_t bright = -1, float brightness = 300) : bright_(bright), brightness_(brightness) {}
  std::int64_t size() const override { return kSamples; }
  SampleShape shape() const override { return {1, 28, 28, 10}; }
  std::int64_t read(std::int64_t index, float* image) const override {
    const float brightness = index == bright_ ? brightness_ : 1;
    for (int i = 0; i < 784; ++i) image[i] = brightness * std::sin(0.01F * static_cast<float>((index + 1) * (i + 3)));
    return index % 10;
  }
  std::string digest() const override { return "waves"; }

 private:
  std::int64_t bright_;
  float brightness_;
};

/// Sentences of one to six words and what each is to become: samples count as many as they have words to say.
class Phrases final : public Dataset {
 public:
  std::int64_t size() const override { return kSamples; }
  SampleShape shape() const override { return {.classes = 13, .objective = Objective::translation, .source_length = 7, .target_length = 8}; }
  std::int64_t read(std::int64_t, float*) const override { return 0; }
  void read_words(std::int64_t index, std::int64_t* source, std::int64_t* target) const override {
    const auto words = words_of(index);
    std::fill_n(source, shape().source_length, SampleShape::kPadding);
    std::fill_n(target, shape().target_length, SampleShape::kPadding);
    target[0] = SampleShape::kBegin;
    for (std::int64_t i = 0; i < words; ++i) {
      source[i] = 3 + (index + i) % 10;
      target[1 + i] = 3 + (2 * index + 3 * i) % 10;
    }
    source[words] = target[1 + words] = SampleShape::kEnd;
  }
  std::int64_t weight(std::int64_t index) const override { return words_of(index) + 1; }
  std::string digest() const override { return "phrases"; }

 private:
  static std::int64_t words_of(std::int64_t index) { return 1 + index * 5 % 6; }
};

/// Windows of a stream of words.
class WordStream final : public Dataset {
 public:
  std::int64_t size() const override { return kSamples; }
  SampleShape shape() const override { return {.classes = 17, .objective = Objective::language, .target_length = 9}; }
  std::int64_t read(std::int64_t, float*) const override { return 0; }
  void read_words(std::int64_t index, std::int64_t*, std::int64_t* target) const override {
    target[0] = SampleShape::kBegin;
    for (std::int64_t i = 1; i < shape().target_length; ++i) target[i] = 3 + (5 * index + i * i) % 14;
  }
  std::int64_t weight(std::int64_t) const override { return shape().target_length - 1; }
  std::string digest() const override { return "stream"; }
};

/// Images of any shape, with a caption where the objective asks for one. As many as make whole batches of 8.
class Scenes final : public Dataset {
 public:
  explicit Scenes(SampleShape shape) : shape_(shape) {}
  std::int64_t size() const override { return 16; }
  SampleShape shape() const override { return shape_; }
  std::int64_t read(std::int64_t index, float* image) const override {
    for (std::int64_t i = 0; i < shape_.pixels(); ++i) image[i] = std::sin(0.003F * static_cast<float>((index + 1) * (i % 4099 + 3)));
    return shape_.objective == Objective::classification ? index % shape_.classes : 0;
  }
  void read_words(std::int64_t index, std::int64_t*, std::int64_t* target) const override {
    std::fill_n(target, shape_.target_length, SampleShape::kPadding);
    target[0] = SampleShape::kBegin;
    for (std::int64_t i = 1; i < weight(index); ++i) target[i] = 3 + (5 * index + i * i) % 14;
    target[weight(index)] = SampleShape::kEnd;
  }
  std::int64_t weight(std::int64_t index) const override { return shape_.objective == Objective::classification ? 1 : 2 + index % (shape_.target_length - 2); }
  std::string digest() const override { return "scenes"; }

 private:
  SampleShape shape_;
};

inline std::unique_ptr<Dataset> data_for(const std::string& model, std::int64_t bright, float brightness) {
  if (model.starts_with("transformer")) return std::make_unique<Phrases>();
  if (model.starts_with("gpt")) return std::make_unique<WordStream>();
  return std::make_unique<Waves>(bright, brightness);
}

struct Trial {
  std::string model = "lenet";
  std::string strategy = "data";
  std::int64_t batch = 6;
  std::int64_t steps = 4;
  at::ScalarType type = at::kDouble;
  Kernels kernels = Kernels::fast;
  int accumulate = 1;
  std::string optimizer = "sgd";
  std::string precision = "fp32";   ///< or a mixed one; with `type` fp32
  double label_smoothing = 0;
  double clip = 0;
  bool recompute = false;
  std::int64_t bright = -1;         ///< sample
  float brightness = 300;           ///< of that
  std::string device = "cpu";
  std::string compression = "none";
  bool aten = false;                ///< optimizers as on a GPU
  double rate = kRate;
  Strategy make = {};               ///< instead of the one that `strategy` names
  ModelFactory network = {};        ///< instead of the one that `model` names
  std::int64_t ask_at = -1;         ///< the step from which on one rank asks to stop
  int ask_rank = 0;
  int slow_rank = -1;               ///< whose batches take
  int slow_ms = 0;                  ///< so much longer each
  SampleShape shape = {};           ///< of Scenes to learn from; no classes: the network's own samples above
  std::int64_t lost_at = -1;        ///< the step whose batch fails on that rank
  std::int64_t adopt_after = -1;    ///< the step after which the executor is given its plan once more
  bool graphs = false;              ///< passes are recorded, where the device can
  int unrecordable = -1;            ///< of a delayed device: after so many of them that can be something cannot
};

struct Outcome {
  std::vector<at::Tensor> parameters;   ///< that the rank holds
  std::vector<int> numbers;             ///< of those
  std::vector<ParameterSpec> specs;     ///< of the rank's part of the network
  double loss = 0;  ///< summed over steps
  std::vector<double> losses = {};      ///< by step
  UpdateReport updates;
  AveragingReport averaging;
  std::optional<StalenessReport> staleness;
  std::int64_t steps = 0;           ///< that were made
  Trace trace;
  int faults = 0;                   ///< of a delayed device
  int pinned = 0;                   ///< blocks that it was not told to unpin
  int read_in_place = 0;            ///< uploads that it read from pinned memory
  int uploads_beside = 0;           ///< beside the step before
  std::vector<at::Tensor> buffers = {};      ///< running statistics that the rank holds
  std::vector<int> buffer_numbers = {};
  std::int64_t samples = 0;         ///< whose loss the rank computed
  GraphReport graphs = {};
  int launches = 0;                 ///< of a delayed device's graphs
};

inline Outcome train_rank(const Trial& trial, int rank, int ranks, Communicator* communicator) {
  const auto held = trial.shape.classes > 0 ? std::make_unique<Scenes>(trial.shape) : data_for(trial.model, trial.bright, trial.brightness);
  const Dataset& data = *held;
  const auto model = parse_spec(trial.model);
  const auto device = test_device(trial.device, {.graphs = trial.graphs});
  PinnedMemory pinned(*device);  // outlives whoever holds batches
  auto* const delayed = dynamic_cast<DelayedDevice*>(device.get());
  const auto graph = (trial.network ? trial.network : builtin_models().at(model.name).make)(model, data.shape());
  Recipe recipe;
  recipe.shape = data.shape();
  recipe.precision = trial.precision;
  recipe.label_smoothing = trial.label_smoothing;
  recipe.clip = trial.clip;
  recipe.recompute = trial.recompute;
  recipe.graphs = trial.graphs;
  const auto spec = parse_spec(ranks == 1 && communicator == nullptr ? "single" : trial.strategy);
  const auto plan_with = [&](std::vector<int> order) {
    StrategyInput input{graph, ranks, trial.batch, 8, spec, std::move(order), trial.accumulate};
    input.whole_gradient = Executor::needs_whole_gradient(recipe);
    input.optimizer_tensors = make_optimizer(parse_spec(trial.optimizer), {}, {0.9, 0.01})->state_tensors();
    input.parameter_norms = dynamic_cast<NormsOfParts*>(make_optimizer(parse_spec(trial.optimizer), {}, {0.9, 0.01}).get()) != nullptr;
    return (trial.make && spec.name != "single" ? trial.make : builtin_strategies().at(spec.name).make)(input);
  };
  const auto plan = plan_with({});
  Network network(StageRunner::prepare(graph_of(plan, graph, rank), plan.stages), {trial.type, device->where(), trial.kernels, 7, layers_of(plan, rank)});
  if (delayed != nullptr) delayed->keeps(network.buffers());
  if (delayed != nullptr) delayed->fail_recording(trial.unrecordable);
  std::unique_ptr<ParameterShards> shards;
  if (ParameterShards::needed(plan, rank)) shards = std::make_unique<ParameterShards>(plan, rank, network, communicator->transport(), *device, true);
  const auto optimizer = make_optimizer(parse_spec(trial.optimizer), shards ? shards->own() : network.parameters(), {0.9, 0.01});
  if (trial.aten) optimizer->use_aten();
  auto made = std::make_unique<Executor>(network, *optimizer, *device, communicator, rank, recipe, Exchange{"auto", trial.compression}, shards.get());
  auto& executor = *made;
  executor.serve_with([&](std::vector<at::Tensor> parameters) { return make_optimizer(parse_spec(trial.optimizer), std::move(parameters), {0.9, 0.01}); });
  executor.adopt(plan);
  executor.ends_with(trial.steps - 1);
  const Sampler sampler(data.size(), trial.batch, plan.shares(), true, 3, [&](std::int64_t index) { return data.weight(index); }, batch_shares(spec));
  LoaderOptions loading{0, 1, !is_given_inputs(plan, rank)};
  if (reads_batches_in_place(plan, *device)) loading.memory = &pinned;
  auto loader = std::make_unique<Loader>(data, [&](std::int64_t step) { return sampler.share(step, plan.share_of(rank)); }, 0, trial.steps, loading);
  Outcome outcome;
  std::vector<int> known_order;
  std::shared_ptr<const Batch> coming;
  for (std::int64_t step = 0; step < trial.steps; ++step) {
    const auto from_loader = [&] {
      if (rank == trial.slow_rank) std::this_thread::sleep_for(std::chrono::milliseconds(trial.slow_ms));
      if (rank == trial.slow_rank && step == trial.lost_at) throw Error(Code::io, "[trial] no such batch");
      const auto batch = loader->next();
      if (!reads_batches_in_place(plan, *device)) return batch;
      // As soon as nobody holds it any more a loader's thread may write the next one there.
      return std::shared_ptr<const Batch>(batch.get(), [batch](const Batch*) { std::fill_n(const_cast<float*>(batch->images.data()), batch->images.size(), -1e9F); });
    };
    const auto next_batch = [&] { return coming ? std::exchange(coming, nullptr) : from_loader(); };
    // Now and then it is not there yet.
    const auto peek = [&]() -> std::shared_ptr<const Batch> {
      if (step % 3 == 2 || step + 1 == trial.steps || rank == trial.slow_rank) return nullptr;
      return coming = from_loader();
    };
    const bool ahead = trial.graphs && reads_batches_in_place(plan, *device);
    const auto result = executor.step(step, next_batch, trial.rate, trial.ask_at >= 0 && step >= trial.ask_at && rank == trial.ask_rank, ahead ? Executor::NextBatch(peek) : Executor::NextBatch());
    outcome.loss += result.loss;
    outcome.samples += result.samples;
    outcome.losses.push_back(result.loss);
    ++outcome.steps;
    if (step == 0 && !shards && plan.stages.size() == 1 && !executor.role().buckets.empty()) {
      auto order = executor.observed_order();
      std::vector<std::int64_t> shared(order.begin(), order.end());
      communicator->broadcast({reinterpret_cast<std::byte*>(shared.data()), shared.size(), ElementType::int64}, 0).wait();
      known_order.assign(shared.begin(), shared.end());
      executor.adopt(plan_with(known_order));
    }
    if (step == trial.adopt_after) executor.adopt(plan_with(known_order));
    if (result.stop) break;  // after what all do: some may be told in the first step already
  }
  executor.converge();
  outcome.staleness = executor.staleness();
  std::optional<WholeParameters> gathered(std::in_place, shards.get(), communicator);
  for (auto& parameter : network.parameters()) outcome.parameters.push_back(fetch(*device, parameter).clone());
  outcome.numbers = network.parameter_numbers();
  outcome.specs = network.graph().parameter_specs();
  for (auto& buffer : network.buffers()) outcome.buffers.push_back(fetch(*device, buffer).clone());
  outcome.buffer_numbers = network.buffer_numbers();
  outcome.trace = executor.take_trace();
  outcome.updates = executor.updates();
  outcome.averaging = executor.averaging();
  outcome.graphs = executor.graphs();
  if (communicator) communicator->barrier().wait();
  gathered.reset();
  made.reset();
  coming.reset();
  loader.reset();
  if (delayed != nullptr) {
    outcome.faults = delayed->faults();
    outcome.pinned = delayed->pinned();
    outcome.read_in_place = delayed->read_in_place();
    outcome.uploads_beside = delayed->uploads_beside();
    outcome.launches = delayed->launches();
  }
  return outcome;
}

inline std::vector<Outcome> train(const Trial& trial, int ranks) {
  return on_ranks(ranks, [&](Communicator& communicator) { return train_rank(trial, communicator.rank(), ranks, &communicator); });
}

inline double relative_error(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]).pow(2).sum().item<double>();
    size += b[i].pow(2).sum().item<double>();
  }
  return std::sqrt(difference / size);
}

inline bool same_bits(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!at::equal(a[i], b[i])) return false;
  return true;
}

/// The parameters of all ranks together. Those that several hold have the same bits.
inline std::vector<at::Tensor> whole(const std::vector<Outcome>& outcomes, const std::string& what) {
  std::vector<at::Tensor> all;
  std::map<std::pair<std::size_t, std::vector<std::int64_t>>, at::Tensor> pieces;  // by parameter and first indices
  for (const auto& outcome : outcomes)
    for (std::size_t i = 0; i < outcome.numbers.size(); ++i) {
      const auto number = static_cast<std::size_t>(outcome.numbers[i]);
      all.resize(std::max(all.size(), number + 1));
      if (const auto& piece = outcome.specs.at(number).piece) {
        if (!all[number].defined()) all[number] = at::full(piece->whole, std::nan(""), outcome.parameters[i].options());
        const std::function<void(std::size_t, std::vector<std::int64_t>, const at::Tensor&, const at::Tensor&)> put = [&](std::size_t cut, std::vector<std::int64_t> from, const at::Tensor& to,
                                                                                                                          const at::Tensor& own) {
          if (cut == piece->cuts.size()) {
            const auto [place, is_new] = pieces.try_emplace({number, from}, own);
            EXPECT_TRUE(is_new || at::equal(place->second, own)) << what << ": piece from " << from.front() << " of parameter " << number;
            to.detach().copy_(own);
            return;
          }
          std::int64_t at = 0;
          for (const auto& [begin, end] : piece->cuts[cut].ranges) {
            auto next = from;
            next.push_back(begin);
            put(cut + 1, next, to.narrow(piece->cuts[cut].dimension, begin, end - begin), own.narrow(piece->cuts[cut].dimension, at, end - begin));
            at += end - begin;
          }
        };
        put(0, {}, all[number], outcome.parameters[i]);
        continue;
      }
      if (all[number].defined())
        EXPECT_TRUE(at::equal(all[number], outcome.parameters[i])) << what << ": parameter " << number;
      else
        all[number] = outcome.parameters[i];
    }
  return all;
}

/// A sample of NaN ends all workers, each saying one of `words`.
inline void expect_all_end_of_a_loss_that_is_not_finite(Trial trial, int ranks, const std::vector<std::string>& words = {"loss is not finite at step"}) {
  if (trial.bright < 0) trial.bright = 3;
  trial.brightness = std::nanf("");
  const auto outcomes = run_group("inproc", ranks, [&](Communicator& communicator) { train_rank(trial, communicator.rank(), ranks, &communicator); }, {Seconds{60}});
  for (const auto& outcome : outcomes) {
    ASSERT_TRUE(outcome.has_value()) << trial.strategy;
    const std::string said = outcome->what();
    EXPECT_TRUE(std::any_of(words.begin(), words.end(), [&](const std::string& word) { return said.find(word) != std::string::npos; })) << trial.strategy << ": " << said;
  }
}

/// The ranks end with the parameters of the reference, replicas with the same bits, and their losses add up to its own: in fp64.
inline void expect_equal(const std::vector<Outcome>& outcomes, const Outcome& reference, const std::string& what, double tolerance = 1e-12) {
  const auto parameters = whole(outcomes, what);
  ASSERT_EQ(parameters.size(), reference.parameters.size()) << what;
  EXPECT_LT(relative_error(parameters, reference.parameters), tolerance) << what;
  double loss = 0;
  for (const auto& outcome : outcomes) loss += outcome.loss;
  EXPECT_NEAR(loss, reference.loss, tolerance * std::abs(reference.loss)) << what;
}

}  // namespace ddl::testing
