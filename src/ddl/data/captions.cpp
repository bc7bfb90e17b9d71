#include "ddl/data/captions.h"

#include <algorithm>
#include <optional>

#include "ddl/core/error.h"
#include "ddl/core/hash.h"
#include "ddl/data/options.h"
#include "ddl/data/raw_images.h"
#include "ddl/data/scene.h"
#include "ddl/data/sentences.h"

namespace ddl {
namespace {

const std::string kName = "captions";

// Change kVersion with anything that a sample follows from: it is part of the digest.
constexpr int kVersion = 1;
constexpr std::uint64_t kSeed = 20'140'101;  ///< of the data set itself
constexpr std::int64_t kTrainSamples = 40'000, kTestSamples = 4'000;
constexpr std::int64_t kMomentsOf =
    1024;  ///< scenes that mean and deviation are taken from: they settle to three digits

constexpr std::uint64_t kTrainStream = 0;
constexpr std::uint64_t kTestStream = std::uint64_t{1} << 60;

class Captions final : public Dataset, public Sentences, public RawImages {
 public:
  Captions(const SampleShape& shape, std::int64_t samples, std::uint64_t seed, std::uint64_t stream)
      : shape_(shape), samples_(samples), seed_(seed), stream_(stream) {}

  void normalise_with(const Normalisation& normalisation) {
    normalisation_ = normalisation;
    normaliser_.emplace(shape_, normalisation);
  }

  std::int64_t size() const override { return samples_; }
  SampleShape shape() const override { return shape_; }
  std::int64_t read(std::int64_t index, float* image) const override {
    thread_local std::vector<std::uint8_t> bytes;
    bytes.resize(static_cast<std::size_t>(shape_.pixels()));
    read_raw(index, bytes.data());
    normaliser_->apply(bytes.data(), image);
    return 0;
  }
  void read_words(std::int64_t index, std::int64_t*, std::int64_t* target) const override {
    put_target(describe_scene(scene(index)), shape_.target_length, target);
  }
  std::int64_t weight(std::int64_t index) const override {
    return static_cast<std::int64_t>(describe_scene(scene(index)).size()) + 1;
  }
  std::string digest() const override {
    return ddl::digest(fmt::format("captions/{} {} {} {} {}", kVersion, shape_.height, samples_, seed_, stream_));
  }

  std::int64_t read_raw(std::int64_t index, std::uint8_t* image) const override {
    auto random = random_of(index);
    const auto drawn = draw_scene(random);
    render_scene(drawn, random, shape_.height, image);
    return 0;
  }
  const Normalisation& normalisation() const override { return normalisation_; }

  std::string text(std::span<const std::int64_t> words) const override {
    std::string text;
    for (const auto word : words) {
      if (word == SampleShape::kEnd) break;
      if (word > SampleShape::kEnd && word < shape_.classes)
        text += (text.empty() ? "" : " ") + scene_words()[static_cast<std::size_t>(word)];
    }
    return text;
  }
  std::string source(std::int64_t) const override { return {}; }
  std::vector<std::string> references(std::int64_t index) const override {
    std::vector<std::string> all;
    for (const auto& words : describe_scene_in_all_ways(scene(index)))
      all.push_back(text(std::vector<std::int64_t>(words.begin(), words.end())));
    return all;
  }

 private:
  Random random_of(std::int64_t index) const {
    require_sample(index, samples_);
    return Random(seed_, stream_ + static_cast<std::uint64_t>(index));
  }
  Scene scene(std::int64_t index) const {
    auto random = random_of(index);
    return draw_scene(random);
  }

  SampleShape shape_;
  std::int64_t samples_;
  std::uint64_t seed_, stream_;
  Normalisation normalisation_;
  std::optional<Normaliser> normaliser_;
};

}  // namespace

SampleShape captions_shape(const DatasetOptions& options) {
  require_options(kName, options, {"size"});
  const auto size = static_cast<int>(integer_option(kName, options, "size", 64, 16, 1024));
  return {.channels = 3,
          .height = size,
          .width = size,
          .classes = static_cast<int>(scene_words().size()),
          .objective = Objective::captioning,
          .target_length = kLongestDescription + 2};
}

DatasetPair open_captions(const DatasetOptions& options) {
  const auto shape = captions_shape(options);
  const auto seed = options.synthetic ? options.seed : kSeed;
  const auto samples = [&](std::int64_t asked, std::int64_t standard) {
    return options.synthetic ? samples_option(asked, standard) : standard;
  };
  auto train = std::make_unique<Captions>(shape, samples(options.train_samples, kTrainSamples), seed, kTrainStream);
  auto test = std::make_unique<Captions>(shape, samples(options.test_samples, kTestSamples), seed, kTestStream);
  NormalisationSum sum(shape);
  std::vector<std::uint8_t> image(static_cast<std::size_t>(shape.pixels()));
  const auto most = std::max<std::int64_t>(32, kMomentsOf * 64 * 64 / (std::int64_t{shape.height} * shape.width));
  for (std::int64_t i = 0; i < std::min({train->size(), most, kMomentsOf}); ++i) {
    train->read_raw(i, image.data());
    sum.add(image.data());
  }
  train->normalise_with(sum.result());
  test->normalise_with(sum.result());
  return {std::move(train), std::move(test)};
}

}  // namespace ddl
