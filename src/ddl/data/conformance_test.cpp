#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <thread>
#include <vector>

#include "ddl/core/bleu.h"
#include "ddl/core/error.h"
#include "ddl/data/dataset.h"
#include "ddl/data/loader.h"
#include "ddl/data/sentences.h"

// What every registered data set keeps to. All can be made up, and are here; the readers of files have tests of their
// own. Real ones are looked at where this machine has them.

namespace ddl {
namespace {

constexpr std::int64_t kSamples = 37;

DatasetPair made(const Entry<DatasetFactory>& entry, std::uint64_t seed) {
  return entry.make({.synthetic = true, .seed = seed, .train_samples = kSamples, .test_samples = 11});
}

struct Sample {
  std::vector<float> image;
  std::int64_t label = 0;
  std::vector<std::int64_t> source, target;
  bool operator==(const Sample&) const = default;
  auto operator<=>(const Sample&) const = default;
};

std::vector<Sample> all_of(const Dataset& data) {
  std::vector<Sample> samples;
  const auto shape = data.shape();
  for (std::int64_t i = 0; i < data.size(); ++i) {
    Sample sample{std::vector<float>(static_cast<std::size_t>(shape.pixels()))};
    sample.label = data.read(i, sample.image.data());
    if (shape.objective != Objective::classification) {
      sample.source.assign(static_cast<std::size_t>(shape.source_length), -1);
      sample.target.assign(static_cast<std::size_t>(shape.target_length), -1);
      data.read_words(i, sample.source.data(), sample.target.data());
    }
    samples.push_back(std::move(sample));
  }
  return samples;
}

TEST(DatasetConformance, SizesAndShapesAreAsAsked) {
  for (const auto registry = builtin_datasets(); const auto& entry : registry.entries()) {
    const auto pair = made(entry, 1);
    EXPECT_EQ(pair.train->size(), kSamples) << entry.name;
    EXPECT_EQ(pair.test->size(), 11) << entry.name;
    EXPECT_EQ(pair.train->shape(), dataset_shape(entry.name)) << entry.name;
    EXPECT_EQ(pair.test->shape(), dataset_shape(entry.name)) << entry.name;
    EXPECT_EQ(open_dataset(Spec{entry.name, {}}, {.synthetic = true, .train_samples = 20}).train->size(), 20)
        << entry.name;
    const auto whole = entry.make({.synthetic = true});
    EXPECT_GE(whole.test->size(), 1'000) << entry.name;
    EXPECT_GE(whole.train->size(), 5 * whole.test->size()) << entry.name;
  }
}

TEST(DatasetConformance, ShapesFitTheirObjective) {
  for (const auto registry = builtin_datasets(); const auto& entry : registry.entries()) {
    const auto shape = dataset_shape(entry.name);
    const bool image = shape.objective == Objective::classification || shape.objective == Objective::captioning;
    EXPECT_EQ(shape.pixels() > 0, image) << entry.name;
    EXPECT_EQ(shape.source_length > 0, shape.objective == Objective::translation) << entry.name;
    EXPECT_EQ(shape.target_length > 0, shape.objective != Objective::classification) << entry.name;
    EXPECT_GT(shape.classes, 1) << entry.name;
  }
}

/// What stands between begin and end, checked on the way; of a stream all behind the begin.
std::vector<std::int64_t> said(const std::vector<std::int64_t>& target, bool stream, const std::string& name) {
  EXPECT_EQ(target.at(0), SampleShape::kBegin) << name;
  if (stream) return {target.begin() + 1, target.end()};
  const auto end = std::find(target.begin(), target.end(), SampleShape::kEnd);
  EXPECT_NE(end, target.end()) << name;
  if (end == target.end()) return {};
  EXPECT_TRUE(std::all_of(end + 1, target.end(), [](std::int64_t word) { return word == SampleShape::kPadding; }))
      << name;
  return {target.begin() + 1, end};
}

TEST(DatasetConformance, WordsStandAsTheyShouldAndCountAsTheyWeigh) {
  for (const auto registry = builtin_datasets(); const auto& entry : registry.entries()) {
    const auto pair = made(entry, 1);
    const auto shape = pair.train->shape();
    const auto samples = all_of(*pair.train);
    for (std::int64_t i = 0; i < kSamples; ++i) {
      const auto& [image, label, source, target] = samples[static_cast<std::size_t>(i)];
      if (shape.objective == Objective::classification) {
        EXPECT_EQ(pair.train->weight(i), 1) << entry.name;
        continue;
      }
      EXPECT_EQ(label, 0) << entry.name;
      const bool stream = shape.objective == Objective::language;
      const auto words = said(target, stream, entry.name);
      EXPECT_FALSE(words.empty()) << entry.name;
      EXPECT_EQ(pair.train->weight(i), static_cast<std::int64_t>(words.size()) + (stream ? 0 : 1)) << entry.name;
      for (const auto word : words)
        EXPECT_TRUE(word >= (stream ? 2 : 3) && word < shape.classes) << entry.name << " " << word;
      const auto begin_of_padding = std::find(source.begin(), source.end(), SampleShape::kPadding);
      EXPECT_TRUE(std::all_of(begin_of_padding, source.end(), [](std::int64_t word) {
        return word == SampleShape::kPadding;
      })) << entry.name;
      EXPECT_EQ(begin_of_padding == source.begin(), shape.source_length == 0) << entry.name;
      for (auto word = source.begin(); word != begin_of_padding; ++word)
        EXPECT_TRUE(*word >= 3 && *word < shape.classes) << entry.name;
    }
  }
}

TEST(DatasetConformance, TextIsWhatTheWordsSay) {
  for (const auto registry = builtin_datasets(); const auto& entry : registry.entries()) {
    const auto pair = made(entry, 1);
    const auto* sentences = dynamic_cast<const Sentences*>(pair.train.get());
    const auto objective = pair.train->shape().objective;
    EXPECT_EQ(sentences != nullptr, objective == Objective::translation || objective == Objective::captioning)
        << entry.name;
    if (sentences == nullptr) continue;
    const auto samples = all_of(*pair.train);
    for (std::int64_t i = 0; i < kSamples; ++i) {
      const auto references = sentences->references(i);
      ASSERT_FALSE(references.empty()) << entry.name;
      EXPECT_EQ(sentences->text(samples[static_cast<std::size_t>(i)].target), references.front()) << entry.name;
      EXPECT_DOUBLE_EQ(bleu(bleu_counts(references.back(), references), 1), 100) << entry.name;
      EXPECT_EQ(sentences->source(i).empty(), objective == Objective::captioning) << entry.name;
    }
    EXPECT_EQ(sentences->text(std::vector<std::int64_t>{1, 2, 5}), "") << entry.name;
    sentences->text(std::vector<std::int64_t>{-1, 0, 1LL << 62, 3});  // a network may say anything
    EXPECT_THROW(sentences->references(kSamples), Error) << entry.name;
  }
}

TEST(DatasetConformance, OptionsThatAreNotTheirsAreRefused) {
  for (const auto registry = builtin_datasets(); const auto& entry : registry.entries()) {
    EXPECT_THROW(dataset_shape(entry.name + "[nonsense=1]"), Error) << entry.name;
    EXPECT_THROW(open_dataset(parse_spec(entry.name + "[nonsense=1]"), {.synthetic = true}), Error) << entry.name;
  }
  EXPECT_THROW(dataset_shape("nonsense"), Error);
}

/// The real ones that are here, too: their words, and where they are not, a reason.
TEST(DatasetConformance, RealSamplesAreThereOrAReasonIs) {
  for (const auto registry = builtin_datasets(); const auto& entry : registry.entries()) {
    const auto missing = entry.make.missing({});
    if (!missing.empty()) {
      EXPECT_EQ(missing.find('\n'), std::string::npos) << entry.name;
      EXPECT_THROW(entry.make({}), Error) << entry.name;
      continue;
    }
    const auto pair = entry.make({});
    EXPECT_EQ(pair.train->shape(), dataset_shape(entry.name)) << entry.name;
    EXPECT_EQ(pair.train->digest(), entry.make({}).train->digest()) << entry.name;
    const auto shape = pair.train->shape();
    if (shape.objective == Objective::classification) continue;
    std::vector<std::int64_t> source(static_cast<std::size_t>(shape.source_length)),
        target(static_cast<std::size_t>(shape.target_length));
    const bool stream = shape.objective == Objective::language;
    for (std::int64_t i = 0; i < pair.test->size(); ++i) {
      pair.test->read_words(i, source.data(), target.data());
      const auto words = said(target, stream, entry.name);
      ASSERT_EQ(pair.test->weight(i), static_cast<std::int64_t>(words.size()) + (stream ? 0 : 1)) << entry.name;
      for (const auto word : words)
        ASSERT_TRUE(word >= (stream ? 2 : 3) && word < shape.classes) << entry.name << " " << word;
      ASSERT_TRUE(source.empty() || source[0] >= 3) << entry.name;
    }
  }
}

TEST(DatasetConformance, SamplesAreFiniteLabelledAndTheSameEachTime) {
  for (const auto registry = builtin_datasets(); const auto& entry : registry.entries()) {
    const auto pair = made(entry, 1);
    const auto samples = all_of(*pair.train);
    for (const auto& sample : samples) {
      EXPECT_TRUE(sample.label >= 0 && sample.label < pair.train->shape().classes) << entry.name;
      for (const float pixel : sample.image) ASSERT_TRUE(std::isfinite(pixel)) << entry.name;
    }
    EXPECT_EQ(all_of(*pair.train), samples) << entry.name;
    EXPECT_EQ(all_of(*made(entry, 1).train), samples) << entry.name;
    EXPECT_NE(all_of(*made(entry, 2).train), samples) << entry.name;
  }
}

TEST(DatasetConformance, DigestsTellContentsApart) {
  for (const auto registry = builtin_datasets(); const auto& entry : registry.entries()) {
    const auto pair = made(entry, 1);
    EXPECT_EQ(pair.train->digest(), made(entry, 1).train->digest()) << entry.name;
    EXPECT_NE(pair.train->digest(), made(entry, 2).train->digest()) << entry.name;
    EXPECT_NE(pair.train->digest(), pair.test->digest()) << entry.name;
  }
}

TEST(DatasetConformance, ManyThreadsMayRead) {
  for (const auto registry = builtin_datasets(); const auto& entry : registry.entries()) {
    const auto pair = made(entry, 1);
    const auto expected = all_of(*pair.train);
    std::vector<std::vector<Sample>> got(4);
    std::vector<std::thread> threads;
    for (auto& samples : got) threads.emplace_back([&] { samples = all_of(*pair.train); });
    for (auto& thread : threads) thread.join();
    for (const auto& samples : got) EXPECT_EQ(samples, expected) << entry.name;
  }
}

TEST(DatasetConformance, AnEpochOfAllWorkersHoldsEverySampleOnce) {
  for (const auto registry = builtin_datasets(); const auto& entry : registry.entries()) {
    const auto pair = made(entry, 1);
    constexpr int kWorkers = 3;
    const Sampler sampler(pair.train->size(), 8, kWorkers, true, 5);
    const auto shape = pair.train->shape();
    std::vector<Sample> seen;
    const auto part = [](const auto& all, std::int64_t each, std::int64_t i) {
      const auto begin = all.begin() + each * i;
      return std::vector(begin, begin + each);
    };
    for (int worker = 0; worker < kWorkers; ++worker) {
      Loader loader(*pair.train, [&](std::int64_t step) { return sampler.share(step, worker); }, 0,
                    sampler.steps_per_epoch(), {1, 2});
      for (std::int64_t step = 0; step < sampler.steps_per_epoch(); ++step) {
        const auto batch = loader.next();
        for (std::int64_t i = 0; i < batch->samples; ++i)
          seen.push_back({part(batch->images, shape.pixels(), i), batch->labels[static_cast<std::size_t>(i)],
                          part(batch->source, shape.source_length, i), part(batch->target, shape.target_length, i)});
      }
    }
    auto expected = all_of(*pair.train);
    std::sort(seen.begin(), seen.end());
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(seen, expected) << entry.name;
  }
}

}  // namespace
}  // namespace ddl
