#include "ddl/data/translation.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include "ddl/core/bleu.h"
#include "ddl/core/error.h"
#include "ddl/core/json.h"
#include "ddl/data/bpe_cache.h"
#include "ddl/data/mo_testing.h"
#include "ddl/data/sentences.h"
#include "ddl/data/text_corpus.h"

namespace ddl {
namespace {

namespace fs = std::filesystem;

/// Words of the sample as the loader hands them out.
struct Words {
  std::vector<std::int64_t> source, target;
};

Words words_of(const Dataset& data, std::int64_t index) {
  Words words{std::vector<std::int64_t>(static_cast<std::size_t>(data.shape().source_length)),
              std::vector<std::int64_t>(static_cast<std::size_t>(data.shape().target_length))};
  data.read_words(index, words.source.data(), words.target.data());
  return words;
}

/// A corpus of its own, and a cache of its own.
class TranslationFiles : public testing::Test {
 protected:
  TranslationFiles() {
    const auto folder = fs::path(root_) / "locale/de/LC_MESSAGES";
    fs::create_directories(folder);
    std::vector<std::pair<std::string, std::string>> messages{{"", "Content-Type: text/plain; charset=UTF-8\n"}};
    for (int i = 0; i < 400; ++i)
      messages.emplace_back(fmt::format("cannot open {} number {}", kNames[i % 20], kNames[i / 20]),
                            fmt::format("{} Nummer {} lässt sich nicht öffnen", kNames[i % 20], kNames[i / 20]));
    write_file((folder / "x.mo").string(), mo_bytes(messages));
    ::setenv("XDG_CACHE_HOME", (root_ + "/cache").c_str(), 1);
  }
  ~TranslationFiles() override {
    if (kept_.empty())
      ::unsetenv("XDG_CACHE_HOME");
    else
      ::setenv("XDG_CACHE_HOME", kept_.c_str(), 1);
    fs::remove_all(root_);
  }

  DatasetPair open(std::map<std::string, std::string> options = {{"vocabulary", "300"}}) {
    return open_translation({.folder = root_ + "/locale", .options = std::move(options)});
  }
  std::vector<fs::path> cached() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(root_ + "/cache/ddlbench")) files.push_back(entry.path());
    return files;
  }

  static constexpr const char* kNames[] = {"alpha", "bravo", "charlie", "delta", "echo",   "foxtrot", "golf",
                                           "hotel", "india", "juliett", "kilo",  "lima",   "mike",    "november",
                                           "oscar", "papa",  "quebec",  "romeo", "sierra", "tango"};
  std::string root_ = (fs::temp_directory_path() / ("ddl-translation-" + std::to_string(::getpid()))).string();
  std::string kept_ = std::getenv("XDG_CACHE_HOME") != nullptr ? std::getenv("XDG_CACHE_HOME") : "";
};

TEST_F(TranslationFiles, GiveSentencesAndTheirTranslations) {
  const auto pair = open();
  EXPECT_EQ(pair.train->size() + pair.test->size(), 400);
  EXPECT_GT(pair.test->size(), 4);
  EXPECT_LT(pair.test->size(), 50);
  const auto& sentences = require_sentences(*pair.train);
  std::set<std::string> sources;
  for (const auto* part : {pair.train.get(), pair.test.get()})
    for (std::int64_t i = 0; i < part->size(); ++i) {
      const auto words = words_of(*part, i);
      const auto& own = require_sentences(*part);
      const auto said = own.text(words.target);
      EXPECT_EQ(own.references(i), std::vector{said});
      EXPECT_EQ(own.source(i), own.text(words.source));
      EXPECT_TRUE(own.source(i).starts_with("cannot open ")) << own.source(i);
      EXPECT_TRUE(said.ends_with(" lässt sich nicht öffnen")) << said;
      EXPECT_TRUE(sources.insert(own.source(i)).second);
      EXPECT_EQ(is_test_sentence(own.source(i)), part == pair.test.get());
      EXPECT_DOUBLE_EQ(bleu(bleu_counts(said, own.references(i))), 100);
    }
  // Whatever a network says is text up to its end.
  EXPECT_EQ(sentences.text(std::vector<std::int64_t>{1, 3 + 'a', -7, 1LL << 40, 299, 2, 3 + 'b'}).front(), 'a');
}

TEST_F(TranslationFiles, LearnTheirVocabularyOnce) {
  const auto first = open();
  ASSERT_EQ(cached().size(), 1U);
  const auto written = read_file(cached()[0].string());
  EXPECT_EQ(parse_byte_pairs(written, "x").vocabulary(), 300);
  const auto stamp = fs::last_write_time(cached()[0]);
  EXPECT_EQ(open().train->digest(), first.train->digest());
  EXPECT_EQ(fs::last_write_time(cached()[0]), stamp);
  // Damaged, it is made anew, the same.
  for (const auto& damage : {written.substr(0, written.size() / 2), std::string(), std::string("x") + written}) {
    write_file(cached()[0].string(), damage);
    EXPECT_EQ(open().train->digest(), first.train->digest());
    EXPECT_EQ(read_file(cached()[0].string()), written);
  }
  // Nowhere to write: it is learnt all the same.
  fs::remove_all(root_ + "/cache");
  write_file(root_ + "/cache", "in the way");
  EXPECT_EQ(open().train->digest(), first.train->digest());
  ::setenv("XDG_CACHE_HOME", "relative", 1);
  const auto* home = std::getenv("HOME");
  EXPECT_EQ(cache_folder(), home != nullptr && *home == '/' ? std::string(home) + "/.cache/ddlbench" : std::string());
}

TEST_F(TranslationFiles, HaveTheShapeAndDigestOfTheirOptions) {
  const auto pair = open({{"vocabulary", "280"}, {"length", "48"}});
  const SampleShape expected{
      .classes = 280, .objective = Objective::translation, .source_length = 48, .target_length = 48};
  EXPECT_EQ(pair.train->shape(), expected);
  EXPECT_NE(pair.train->digest(), open({{"vocabulary", "281"}, {"length", "48"}}).train->digest());
  EXPECT_NE(pair.train->digest(), open({{"vocabulary", "280"}, {"length", "49"}}).train->digest());
  EXPECT_NE(pair.train->digest(), pair.test->digest());
  // Pairs that are too long are left out; where none is left, it says so.
  const auto whole = open();
  std::int64_t longest = 0;  // words of a source, or of a target with its begin and end
  for (std::int64_t i = 0; i < whole.train->size(); ++i) {
    const auto words = words_of(*whole.train, i);
    for (const auto* side : {&words.source, &words.target})
      longest = std::max<std::int64_t>(longest, std::count_if(side->begin(), side->end(), [](std::int64_t word) { return word != SampleShape::kPadding; }));
  }
  EXPECT_EQ(open({{"vocabulary", "300"}, {"length", std::to_string(longest)}}).train->size(), whole.train->size());
  const auto shorter = open({{"vocabulary", "300"}, {"length", std::to_string(longest - 1)}}).train->size();
  EXPECT_LT(shorter, whole.train->size());
  EXPECT_GT(shorter, 0);
  EXPECT_THROW(open({{"vocabulary", "260"}, {"length", "8"}}), Error);
}

TEST_F(TranslationFiles, SayWhatIsNotThere) {
  const auto refused = [&](const DatasetOptions& options, Code code, const std::string& what) {
    try {
      open_translation(options);
      ADD_FAILURE() << what;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
    }
  };
  refused({.folder = root_ + "/none"}, Code::not_found, root_ + "/none");
  refused({.folder = root_ + "/locale", .options = {{"to", "fr"}}}, Code::not_found, "from en to fr");
  refused({.options = {{"to", "d/e"}}}, Code::invalid_argument, "d/e");
  refused({.options = {{"vocabulary", "100"}}}, Code::invalid_argument,
          "[translation] vocabulary; got '100', expected 259 to");
  refused({.options = {{"vocabulary", "8k"}}}, Code::invalid_argument, "'8k'");
  refused({.options = {{"langth", "8"}}}, Code::invalid_argument, "did you mean 'length'?");
}

TEST(TextCorpus, KeepsLikeSourcesInOnePart) {
  EXPECT_EQ(is_test_sentence("cannot open file 7"), is_test_sentence("Cannot open file: 12!"));
  int test = 0;
  for (int i = 0; i < 4000; ++i)
    test +=
        is_test_sentence(std::string(1 + static_cast<std::size_t>(i) % 40, static_cast<char>('a' + i / 160))) ? 1 : 0;
  EXPECT_NEAR(test, 200, 100);
}

TEST(SyntheticTranslation, FollowsItsRule) {
  const DatasetOptions options{.synthetic = true, .seed = 3, .train_samples = 3000, .test_samples = 100};
  const auto pair = open_translation(options);
  const auto shape = pair.train->shape();
  EXPECT_EQ(shape, translation_shape({}));
  std::map<std::int64_t, std::int64_t> lexicon, back;
  for (std::int64_t i = 0; i < pair.train->size(); ++i) {
    const auto [source, target] = words_of(*pair.train, i);
    // Read the source clause by clause and translate it: the target must be that, word for word.
    std::vector<std::int64_t> order;
    const auto kind = [&](std::size_t at) { return at < source.size() && source[at] != 0 ? (source[at] - 3) % 3 : -1; };
    std::size_t at = 0;
    while (kind(at) >= 0) {
      std::int64_t verb = 0;
      for (int noun = 0; noun < 2; ++noun) {
        const auto adjective = kind(at) == 2 ? source[at++] : 0;
        ASSERT_EQ(kind(at), 0) << i;
        order.push_back(source[at++]);
        if (adjective != 0) order.push_back(adjective);
        if (noun == 0) {
          ASSERT_EQ(kind(at), 1) << i;
          verb = source[at++];
        }
      }
      order.push_back(verb);
    }
    ASSERT_EQ(pair.train->weight(i), static_cast<std::int64_t>(order.size()) + 1);
    for (std::size_t k = 0; k < order.size(); ++k) {
      const auto word = target[k + 1];
      ASSERT_GE(word, 3 + (shape.classes - 3) / 2);
      ASSERT_LT(word, shape.classes);
      ASSERT_EQ(lexicon.emplace(order[k], word).first->second, word);
      ASSERT_EQ(back.emplace(word, order[k]).first->second, order[k]);
    }
    ASSERT_EQ(target[order.size() + 1], SampleShape::kEnd);
  }
  EXPECT_GT(lexicon.size(), 1000U);
  // A word for each number, and another for another.
  const auto& sentences = require_sentences(*pair.train);
  std::set<std::string> spelled;
  for (std::int64_t word = 3; word < shape.classes; ++word) spelled.insert(sentences.text(std::vector{word}));
  EXPECT_EQ(spelled.size(), static_cast<std::size_t>(shape.classes - 3));
  EXPECT_EQ(bleu_words(sentences.references(0)[0]).size() + 1, static_cast<std::size_t>(pair.train->weight(0)));
}

TEST(SyntheticTranslation, FitsShortLengths) {
  const auto pair = open_translation({.synthetic = true,
                                      .train_samples = 200,
                                      .test_samples = 1,
                                      .options = {{"length", "8"}, {"vocabulary", "259"}}});
  for (std::int64_t i = 0; i < 200; ++i) EXPECT_LE(pair.train->weight(i), 7);
  EXPECT_THROW(open_translation({.synthetic = true, .train_samples = -1}), Error);
}

}  // namespace
}  // namespace ddl
