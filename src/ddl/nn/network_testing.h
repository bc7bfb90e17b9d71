#pragma once

#include <cmath>
#include <string>

#include "ddl/core/random.h"
#include "ddl/data/dataset.h"
#include "ddl/nn/network.h"

// Made-up samples for tests of networks. The same for every run: they come from a seed.
namespace ddl {

struct Samples {
  NetworkInput input = {};
  at::Tensor labels = {};  ///< [n], or [n, words] with kPadding where there is none
};

inline at::Tensor made_up_images(std::int64_t n, const SampleShape& shape, at::ScalarType type) {
  Random random(11);
  auto images = at::empty({n, shape.channels, shape.height, shape.width}, at::kFloat);
  for (std::int64_t i = 0; i < images.numel(); ++i) images.data_ptr<float>()[i] = random.normal();
  return images.to(type);
}

/// Sentences of different lengths: begin (where told), words, padding.
inline at::Tensor made_up_words(std::int64_t n, std::int64_t length, std::int64_t vocabulary, std::uint64_t seed, bool begin) {
  Random random(seed);
  auto words = at::zeros({n, length}, at::kLong);
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < length - i % 3; ++j)
      words[i][j] = begin && j == 0 ? SampleShape::kBegin : 3 + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(vocabulary - 3)));
  return words;
}

inline Samples made_up_samples(std::int64_t n, const SampleShape& shape, at::ScalarType type) {
  Samples samples;
  for (std::int64_t i = 0; i < n; ++i) samples.input.samples.push_back(i);
  if (shape.pixels() > 0) samples.input.images = made_up_images(n, shape, type);
  if (shape.source_length > 0) samples.input.source = made_up_words(n, shape.source_length, shape.classes, 12, false);
  if (shape.target_length > 0) {
    const auto words = made_up_words(n, shape.target_length, shape.classes, 13, true);
    samples.input.target = words.narrow(1, 0, shape.target_length - 1).contiguous();
    samples.labels = words.narrow(1, 1, shape.target_length - 1).contiguous();
  } else {
    samples.labels = at::arange(n, at::kLong).mul(7).add(3).remainder(shape.classes);
  }
  return samples;
}

/// The mean over what is to be said; an auxiliary head counts 0.3.
inline at::Tensor loss_of(const NetworkOutput& output, const at::Tensor& labels, const SampleShape& shape) {
  const auto padding = shape.objective == Objective::classification ? -100 : SampleShape::kPadding;
  const auto loss = at::cross_entropy_loss(output.logits.flatten(0, -2), labels.flatten(), {}, at::Reduction::Mean, padding);
  if (!output.auxiliary.defined()) return loss;
  return loss.add(at::cross_entropy_loss(output.auxiliary, labels), 0.3);
}

struct Trial {
  std::string spec;
  SampleShape shape;
};

/// Sizes at which a network runs in a second.
inline Trial small_trial(const std::string& name) {
  if (name == "lenet" || name == "mlp") return {name, {1, 28, 28, 10}};
  if (name == "null") return {"null[ms=0]", {1, 28, 28, 10}};
  if (name == "inceptionv3") return {name, {3, 75, 75, 10}};
  if (name == "transformer" || name == "transformer-big")
    return {name + "[layers=1]", {.classes = 50, .objective = Objective::translation, .source_length = 9, .target_length = 8}};
  if (name == "gpt") return {"gpt[hidden=64,layers=2,heads=4]", {.classes = 50, .objective = Objective::language, .target_length = 13}};
  if (name == "captioner") return {"captioner[encoder=trained,depth=18,hidden=64]", {3, 32, 32, 50, Objective::captioning, 0, 9}};
  return {name, {3, 32, 32, 10}};
}

/// As small as the network takes it.
inline Trial tiny_trial(const std::string& name) {
  if (name == "transformer-big") return {"transformer-big[layers=1,hidden=64]", small_trial(name).shape};
  auto trial = small_trial(name);
  if (trial.shape.height == 32) trial.shape.height = trial.shape.width = 16;
  return trial;
}

}  // namespace ddl
