#include "ddl/data/synthetic_language.h"

#include <array>
#include <cmath>

#include "ddl/core/error.h"
#include "ddl/core/hash.h"
#include "ddl/core/random.h"
#include "ddl/data/options.h"
#include "ddl/data/raw_images.h"

namespace ddl {
namespace {

// Change kVersion with anything that a sample follows from: it is part of the digest.
constexpr int kVersion = 1;
constexpr std::int64_t kTrainSamples = 20'000, kTestSamples = 1'000;
constexpr std::int64_t kFirstWord = 3;

constexpr std::uint64_t kTrainStream = 0;
constexpr std::uint64_t kTestStream = std::uint64_t{1} << 60;
constexpr std::uint64_t kContextStream = std::uint64_t{1} << 61;

// 840 * (1, 1/2, … 1/8): whole numbers, so that the probabilities are exact.
constexpr std::array<std::uint64_t, kLanguageChoices> kShares{840, 420, 280, 210, 168, 140, 120, 105};
constexpr std::uint64_t kShareSum = 2283;

class SyntheticLanguage final : public Dataset {
 public:
  SyntheticLanguage(const SampleShape& shape, std::int64_t samples, std::uint64_t seed, std::uint64_t stream)
      : shape_(shape), samples_(samples), seed_(seed), stream_(stream), words_(shape.classes - kFirstWord) {}

  std::int64_t size() const override { return samples_; }
  SampleShape shape() const override { return shape_; }
  std::int64_t read(std::int64_t index, float*) const override {
    require_sample(index, samples_);
    return 0;
  }
  void read_words(std::int64_t index, std::int64_t*, std::int64_t* target) const override {
    require_sample(index, samples_);
    Random random(seed_, stream_ + static_cast<std::uint64_t>(index));
    std::int64_t before_last = SampleShape::kBegin, last = SampleShape::kBegin;
    *target = SampleShape::kBegin;
    for (int i = 1; i < shape_.target_length; ++i) {
      target[i] = next(before_last, last, random);
      before_last = last;
      last = target[i];
    }
  }
  std::int64_t weight(std::int64_t) const override { return shape_.target_length - 1; }
  std::string digest() const override {
    return ddl::digest(fmt::format("synthetic language/{} {} {} {} {} {}", kVersion, shape_.classes,
                                   shape_.target_length, samples_, seed_, stream_));
  }

 private:
  std::int64_t next(std::int64_t before_last, std::int64_t last, Random& random) const {
    auto drawn = random.below(kShareSum);
    std::int64_t choice = 0;
    for (; drawn >= kShares[static_cast<std::size_t>(choice)]; ++choice)
      drawn -= kShares[static_cast<std::size_t>(choice)];
    // A context's choices are neighbours from a drawn place on: distinct, and as good as any, since numbers of words
    // mean nothing.
    const auto context = static_cast<std::uint64_t>(last * kLanguageGroups + before_last % kLanguageGroups);
    const auto begin =
        static_cast<std::int64_t>(Random(seed_, kContextStream + context).below(static_cast<std::uint64_t>(words_)));
    return kFirstWord + (begin + choice) % words_;
  }

  SampleShape shape_;
  std::int64_t samples_;
  std::uint64_t seed_, stream_;
  std::int64_t words_;
};

}  // namespace

DatasetPair make_synthetic_language(const SampleShape& shape, const DatasetOptions& options) {
  if (shape.classes < 16 || shape.target_length < 2)
    throw Error(
        Code::invalid_argument,
        fmt::format("[synthetic] language; got a vocabulary of {} and a length of {}, expected 16 and 2 or more",
                    shape.classes, shape.target_length));
  const auto part = [&](std::int64_t samples, std::uint64_t stream) {
    return std::make_unique<SyntheticLanguage>(shape, samples, options.seed, stream);
  };
  return {part(samples_option(options.train_samples, kTrainSamples), kTrainStream),
          part(samples_option(options.test_samples, kTestSamples), kTestStream)};
}

double synthetic_language_entropy() {
  double entropy = 0;
  for (const auto share : kShares) {
    const double p = static_cast<double>(share) / static_cast<double>(kShareSum);
    entropy -= p * std::log(p);
  }
  return entropy;
}

}  // namespace ddl
