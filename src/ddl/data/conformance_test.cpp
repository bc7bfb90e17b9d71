#include <algorithm>
#include <cmath>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "ddl/data/dataset.h"
#include "ddl/data/loader.h"

// What every registered data set keeps to. All can be made up, and are here; the readers of files have tests of their own.

namespace ddl {
namespace {

constexpr std::int64_t kSamples = 37;

DatasetPair made(const Entry<DatasetFactory>& entry, std::uint64_t seed) {
  return entry.make({.synthetic = true, .seed = seed, .train_samples = kSamples, .test_samples = 11});
}

struct Sample {
  std::vector<float> image;
  std::int64_t label;
  bool operator==(const Sample&) const = default;
};

std::vector<Sample> all_of(const Dataset& data) {
  std::vector<Sample> samples;
  for (std::int64_t i = 0; i < data.size(); ++i) {
    Sample sample{std::vector<float>(static_cast<std::size_t>(data.shape().pixels())), 0};
    sample.label = data.read(i, sample.image.data());
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
    EXPECT_EQ(entry.make({.synthetic = true, .train_samples = 20}).test->size(), 10'000) << entry.name;
  }
}

TEST(DatasetConformance, SamplesAreFiniteLabelledAndTheSameEachTime) {
  for (const auto registry = builtin_datasets(); const auto& entry : registry.entries()) {
    const auto pair = made(entry, 1);
    const auto samples = all_of(*pair.train);
    for (const auto& [image, label] : samples) {
      EXPECT_TRUE(label >= 0 && label < pair.train->shape().classes) << entry.name;
      for (const float pixel : image) ASSERT_TRUE(std::isfinite(pixel)) << entry.name;
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
    const auto pixels = static_cast<std::size_t>(pair.train->shape().pixels());
    std::vector<Sample> seen;
    for (int worker = 0; worker < kWorkers; ++worker) {
      Loader loader(*pair.train, [&](std::int64_t step) { return sampler.share(step, worker); }, 0, sampler.steps_per_epoch(), {1, 2});
      for (std::int64_t step = 0; step < sampler.steps_per_epoch(); ++step) {
        const auto batch = loader.next();
        for (std::int64_t i = 0; i < batch->samples; ++i) {
          const auto* image = batch->images.data() + static_cast<std::size_t>(i) * pixels;
          seen.push_back({{image, image + pixels}, batch->labels[static_cast<std::size_t>(i)]});
        }
      }
    }
    auto expected = all_of(*pair.train);
    const auto order = [](const Sample& a, const Sample& b) { return a.image < b.image; };
    std::sort(seen.begin(), seen.end(), order);
    std::sort(expected.begin(), expected.end(), order);
    EXPECT_EQ(seen, expected) << entry.name;
  }
}

}  // namespace
}  // namespace ddl
