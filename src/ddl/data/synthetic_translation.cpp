#include "ddl/data/synthetic_translation.h"

#include <algorithm>
#include <bit>

#include "ddl/core/error.h"
#include "ddl/core/hash.h"
#include "ddl/core/random.h"
#include "ddl/data/options.h"
#include "ddl/data/raw_images.h"
#include "ddl/data/sentences.h"

namespace ddl {
namespace {

// Change kVersion with anything that a sample follows from: it is part of the digest.
constexpr int kVersion = 1;
constexpr std::int64_t kTrainSamples = 40'000, kTestSamples = 2'000;
constexpr int kLongestClause = 5, kMostClauses = 3;
constexpr std::int32_t kFirstWord = 3;

constexpr std::uint64_t kTrainStream = 0;
constexpr std::uint64_t kTestStream = std::uint64_t{1} << 60;
constexpr std::uint64_t kLexiconStream = std::uint64_t{1} << 61;

/// Kinds take turns along the ranks, so that each has frequent and rare words.
enum Kind : std::int64_t { kNoun, kVerb, kAdjective, kKinds };

/// Which words there are, and what stands for what. Words of the source language are kFirstWord + rank.
class Lexicon {
 public:
  Lexicon(int vocabulary, std::uint64_t seed)
      : words_((vocabulary - kFirstWord) / 2), translation_(permutation(words_, seed, kLexiconStream)) {}

  std::int32_t draw(Random& random, Kind kind) const {
    const auto ranks = static_cast<std::uint64_t>((words_ - kind + kKinds - 1) / kKinds);  // of this kind
    // An octave, then a rank in it: uniform on a logarithmic scale, in integers.
    const auto octave = random.below(static_cast<std::uint64_t>(std::bit_width(ranks)));
    const auto begin = (std::uint64_t{1} << octave) - 1, end = std::min((std::uint64_t{1} << (octave + 1)) - 1, ranks);
    return kFirstWord + static_cast<std::int32_t>((begin + random.below(end - begin)) * kKinds + kind);
  }
  std::int32_t translated(std::int32_t word) const {
    return static_cast<std::int32_t>(kFirstWord + words_ + translation_[static_cast<std::size_t>(word - kFirstWord)]);
  }

 private:
  std::int64_t words_;
  std::vector<std::int64_t> translation_;
};

/// A word as people can say it: syllables of its digits to base 50.
std::string spelled(std::int64_t number) {
  static constexpr std::string_view kConsonants = "bdfgklmnrt", kVowels = "aeiou";
  std::string word;
  for (bool more = true; more; number /= 50, more = number > 0) {
    word += kConsonants[static_cast<std::size_t>(number % 50 / 5)];
    word += kVowels[static_cast<std::size_t>(number % 5)];
  }
  return word;
}

std::string spelled(std::span<const std::int32_t> words) {
  std::string text;
  for (const auto word : words) text += (text.empty() ? "" : " ") + spelled(word);
  return text;
}

struct Sentence {
  std::vector<std::int32_t> source, target;
};

/// What a sample is but for its words: how many clauses, and a bit for each noun that has an adjective.
struct Form {
  int clauses;
  std::uint64_t adjectives;

  std::int64_t words() const { return 3 * clauses + std::popcount(adjectives); }
};

class SyntheticTranslation final : public Dataset, public Sentences {
 public:
  SyntheticTranslation(const SampleShape& shape, std::int64_t samples, std::uint64_t seed, std::uint64_t stream,
                       std::shared_ptr<const Lexicon> lexicon)
      : shape_(shape),
        samples_(samples),
        seed_(seed),
        stream_(stream),
        lexicon_(std::move(lexicon)),
        clauses_(std::clamp(std::min(shape.source_length, shape.target_length - 2) / kLongestClause, 1, kMostClauses)) {
  }

  std::int64_t size() const override { return samples_; }
  SampleShape shape() const override { return shape_; }
  std::int64_t read(std::int64_t index, float*) const override {
    require_sample(index, samples_);
    return 0;
  }
  void read_words(std::int64_t index, std::int64_t* source, std::int64_t* target) const override {
    const auto sentence = sentence_of(index);
    put_source(sentence.source, shape_.source_length, source);
    put_target(sentence.target, shape_.target_length, target);
  }
  std::int64_t weight(std::int64_t index) const override {
    Random random(seed_, stream_ + static_cast<std::uint64_t>(index));
    return 1 + form(random).words();
  }
  std::string digest() const override {
    return ddl::digest(fmt::format("synthetic translation/{} {} {} {} {} {} {}", kVersion, shape_.classes,
                                   shape_.source_length, shape_.target_length, samples_, seed_, stream_));
  }

  std::string text(std::span<const std::int64_t> words) const override {
    std::vector<std::int32_t> said;
    for (const auto word : words) {
      if (word == SampleShape::kEnd) break;
      if (word >= kFirstWord && word < shape_.classes) said.push_back(static_cast<std::int32_t>(word));
    }
    return spelled(said);
  }
  std::string source(std::int64_t index) const override { return spelled(sentence_of(index).source); }
  std::vector<std::string> references(std::int64_t index) const override {
    return {spelled(sentence_of(index).target)};
  }

 private:
  Form form(Random& random) const {
    const int clauses = 1 + static_cast<int>(random.below(static_cast<std::uint64_t>(clauses_)));
    return {clauses, random.below(std::uint64_t{1} << (2 * clauses))};
  }

  Sentence sentence_of(std::int64_t index) const {
    require_sample(index, samples_);
    Random random(seed_, stream_ + static_cast<std::uint64_t>(index));
    const auto shape = form(random);
    Sentence sentence;
    const auto say = [&](Kind kind) { return sentence.source.emplace_back(lexicon_->draw(random, kind)); };
    const auto translate = [&](std::int32_t word) { sentence.target.push_back(lexicon_->translated(word)); };
    for (int clause = 0; clause < shape.clauses; ++clause) {
      std::int32_t verb = 0;
      for (int noun = 0; noun < 2; ++noun) {
        const bool described = (shape.adjectives >> (2 * clause + noun) & 1) != 0;
        const auto adjective = described ? say(kAdjective) : 0;
        translate(say(kNoun));
        if (described) translate(adjective);
        if (noun == 0) verb = say(kVerb);
      }
      translate(verb);
    }
    return sentence;
  }

  SampleShape shape_;
  std::int64_t samples_;
  std::uint64_t seed_, stream_;
  std::shared_ptr<const Lexicon> lexicon_;
  int clauses_;  ///< of a sentence, at most
};

}  // namespace

DatasetPair make_synthetic_translation(const SampleShape& shape, const DatasetOptions& options) {
  if (shape.classes < 64 || shape.source_length < 8 || shape.target_length < 8)
    throw Error(
        Code::invalid_argument,
        fmt::format(
            "[synthetic] translation; got a vocabulary of {} and lengths of {} and {}, expected 64 and 8 or more",
            shape.classes, shape.source_length, shape.target_length));
  const auto lexicon = std::make_shared<const Lexicon>(shape.classes, options.seed);
  const auto part = [&](std::int64_t samples, std::uint64_t stream) {
    return std::make_unique<SyntheticTranslation>(shape, samples, options.seed, stream, lexicon);
  };
  return {part(samples_option(options.train_samples, kTrainSamples), kTrainStream),
          part(samples_option(options.test_samples, kTestSamples), kTestStream)};
}

}  // namespace ddl
