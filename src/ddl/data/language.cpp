#include "ddl/data/language.h"

#include <algorithm>

#include "ddl/core/error.h"
#include "ddl/core/hash.h"
#include "ddl/data/bpe_cache.h"
#include "ddl/data/options.h"
#include "ddl/data/raw_images.h"
#include "ddl/data/synthetic_language.h"
#include "ddl/data/text_corpus.h"

namespace ddl {
namespace {

const std::string kName = "language";

class Language final : public Dataset {
 public:
  Language(const std::vector<SentencePair>& pairs, const BytePairs& bytes, const SampleShape& shape,
           std::string_view about)
      : shape_(shape) {
    BytePairEncoder encoder(bytes);
    for (const auto& pair : pairs) {
      const auto words = encoder.encode(pair.source);
      stream_.insert(stream_.end(), words.begin(), words.end());
      stream_.push_back(SampleShape::kEnd);
    }
    digest_ = Hasher().add(about).add(to_text(bytes)).add(std::as_bytes(std::span(stream_))).digest();
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(stream_.size()) / window(); }
  SampleShape shape() const override { return shape_; }
  std::int64_t read(std::int64_t index, float*) const override {
    require_sample(index, size());
    return 0;
  }
  void read_words(std::int64_t index, std::int64_t*, std::int64_t* target) const override {
    require_sample(index, size());
    *target = SampleShape::kBegin;
    std::copy_n(stream_.begin() + index * window(), window(), target + 1);
  }
  std::int64_t weight(std::int64_t) const override { return window(); }
  std::string digest() const override { return digest_; }

 private:
  std::int64_t window() const { return shape_.target_length - 1; }

  SampleShape shape_;
  std::vector<std::int32_t> stream_;
  std::string digest_;
};

}  // namespace

SampleShape language_shape(const DatasetOptions& options) {
  require_options(kName, options, {"vocabulary", "length"});
  return {
      .classes = static_cast<int>(integer_option(kName, options, "vocabulary", 8000,
                                                 options.synthetic ? 16 : BytePairs::kFirstMerge, BytePairs::kLargest)),
      .objective = Objective::language,
      .target_length = static_cast<int>(integer_option(kName, options, "length", 128, 8, 1 << 16))};
}

std::string missing_language(const DatasetOptions& options) {
  return missing_text_corpus("translation", options, "de");
}

DatasetPair open_language(const DatasetOptions& options) {
  const auto shape = language_shape(options);
  if (options.synthetic) return make_synthetic_language(shape, options);
  const auto corpus = read_text_corpus("translation", options, "en", "de");
  std::vector<std::string> texts;
  for (const auto& pair : corpus.train) texts.push_back(pair.source);
  const auto bytes = cached_byte_pairs(texts, shape.classes, cache_folder());
  const auto open = [&](const std::vector<SentencePair>& pairs, std::string_view part) {
    auto data = std::make_unique<Language>(pairs, bytes, shape,
                                           fmt::format("{} {} {} {}", kName, part, shape.classes, shape.target_length));
    if (data->size() == 0)
      throw Error(Code::invalid_argument, fmt::format("[{}] length; got {}, which is longer than all text for {}",
                                                      kName, shape.target_length, part));
    return data;
  };
  return {open(corpus.train, "training"), open(corpus.test, "test")};
}

}  // namespace ddl
