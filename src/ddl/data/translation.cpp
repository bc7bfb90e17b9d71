#include "ddl/data/translation.h"

#include "ddl/core/error.h"
#include "ddl/core/hash.h"
#include "ddl/data/bpe_cache.h"
#include "ddl/data/options.h"
#include "ddl/data/raw_images.h"
#include "ddl/data/sentences.h"
#include "ddl/data/synthetic_translation.h"
#include "ddl/data/text_corpus.h"
#include "ddl/data/word_lists.h"

namespace ddl {
namespace {

const std::string kName = "translation";

struct Chosen {
  std::string from, to;
  std::int64_t vocabulary;
  int length;
};

Chosen chosen(const DatasetOptions& options) {
  require_options(kName, options, {"from", "to", "vocabulary", "length"});
  return {text_option(options, "from", "en"), text_option(options, "to", "de"),
          integer_option(kName, options, "vocabulary", 8000, BytePairs::kFirstMerge, BytePairs::kLargest),
          static_cast<int>(integer_option(kName, options, "length", 64, 8, 4096))};
}

class Translation final : public Dataset, public Sentences {
 public:
  Translation(const std::vector<SentencePair>& pairs, std::shared_ptr<const BytePairs> bytes, const SampleShape& shape,
              std::string_view about)
      : bytes_(std::move(bytes)), shape_(shape) {
    BytePairEncoder encoder(*bytes_);
    for (const auto& pair : pairs) {
      const auto from = encoder.encode(pair.source), to = encoder.encode(pair.target);
      if (static_cast<std::int64_t>(from.size()) > shape.source_length ||
          static_cast<std::int64_t>(to.size()) + 2 > shape.target_length)
        continue;
      sources_.add(from);
      targets_.add(to);
    }
    Hasher hasher;
    hasher.add(about).add(to_text(*bytes_));
    for (const auto* lists : {&sources_, &targets_})
      hasher.add(std::as_bytes(lists->words())).add(std::as_bytes(lists->ends()));
    digest_ = hasher.digest();
  }

  std::int64_t size() const override { return sources_.size(); }
  SampleShape shape() const override { return shape_; }
  std::int64_t read(std::int64_t index, float*) const override {
    require_sample(index, size());
    return 0;
  }
  void read_words(std::int64_t index, std::int64_t* source, std::int64_t* target) const override {
    require_sample(index, size());
    put_source(sources_[index], shape_.source_length, source);
    put_target(targets_[index], shape_.target_length, target);
  }
  std::int64_t weight(std::int64_t index) const override {
    return static_cast<std::int64_t>(targets_[index].size()) + 1;
  }
  std::string digest() const override { return digest_; }

  std::string text(std::span<const std::int64_t> words) const override {
    std::vector<std::int32_t> said;
    for (const auto word : words) {
      if (word == SampleShape::kEnd) break;
      if (word > 0 && word < BytePairs::kLargest) said.push_back(static_cast<std::int32_t>(word));
    }
    return bytes_->decode(said);
  }
  std::string source(std::int64_t index) const override {
    require_sample(index, size());
    return bytes_->decode(sources_[index]);
  }
  std::vector<std::string> references(std::int64_t index) const override {
    require_sample(index, size());
    return {bytes_->decode(targets_[index])};
  }

 private:
  std::shared_ptr<const BytePairs> bytes_;
  SampleShape shape_;
  WordLists sources_, targets_;
  std::string digest_;
};

}  // namespace

SampleShape translation_shape(const DatasetOptions& options) {
  const auto choice = chosen(options);
  return {.classes = static_cast<int>(choice.vocabulary),
          .objective = Objective::translation,
          .source_length = choice.length,
          .target_length = choice.length};
}

std::string missing_translation(const DatasetOptions& options) {
  const auto choice = chosen(options);
  return missing_text_corpus(kName, options, choice.to == "en" ? choice.from : choice.to);
}

DatasetPair open_translation(const DatasetOptions& options) {
  const auto choice = chosen(options);
  const auto shape = translation_shape(options);
  if (options.synthetic) return make_synthetic_translation(shape, options);
  const auto corpus = read_text_corpus(kName, options, choice.from, choice.to);
  std::vector<std::string> texts;
  for (const auto& pair : corpus.train) texts.insert(texts.end(), {pair.source, pair.target});
  const auto bytes = std::make_shared<const BytePairs>(cached_byte_pairs(texts, choice.vocabulary, cache_folder()));
  const auto open = [&](const std::vector<SentencePair>& pairs, std::string_view part) {
    auto data = std::make_unique<Translation>(
        pairs, bytes, shape,
        fmt::format("{} {} {} {} {} {}", kName, part, choice.from, choice.to, choice.vocabulary, choice.length));
    if (data->size() == 0)
      throw Error(
          Code::invalid_argument,
          fmt::format("[{}] length; got {}, which is shorter than every sentence for {}", kName, choice.length, part));
    return data;
  };
  return {open(corpus.train, "training"), open(corpus.test, "test")};
}

}  // namespace ddl
