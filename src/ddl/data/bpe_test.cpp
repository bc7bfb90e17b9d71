#include "ddl/data/bpe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "ddl/core/error.h"
#include "ddl/core/hash.h"
#include "ddl/core/random.h"
#include "ddl/core/utf8.h"

namespace ddl {
namespace {

using Symbols = std::vector<std::int32_t>;

std::int32_t byte(char c) { return static_cast<std::int32_t>(BytePairs::kFirstByte) + static_cast<std::uint8_t>(c); }
std::int32_t merged(int i) { return static_cast<std::int32_t>(BytePairs::kFirstMerge) + i; }

std::vector<std::string> repeated(const std::vector<std::pair<std::string, int>>& words) {
  std::vector<std::string> texts;
  for (const auto& [word, times] : words)
    for (int i = 0; i < times; ++i) texts.push_back(word);
  return texts;
}

/// The words that Sennrich et al. 2016 learn from in their figure 1.
BytePairs of_the_paper(std::int64_t merges) {
  return learn_byte_pairs(repeated({{"low", 5}, {"lower", 2}, {"newest", 6}, {"widest", 3}}),
                          BytePairs::kFirstMerge + merges);
}

/// The definition: count everything anew before each merge.
std::vector<BytePairs::Merge> by_definition(const std::vector<std::string>& texts, std::size_t most) {
  std::vector<Symbols> pieces;
  for (const auto& text : texts)
    for_each_piece(normalised_text(text), [&](std::string_view piece) {
      pieces.emplace_back();
      for (const char c : piece) pieces.back().push_back(byte(c));
    });
  std::vector<BytePairs::Merge> merges;
  while (merges.size() < most) {
    std::map<BytePairs::Merge, int> counts;
    for (const auto& piece : pieces)
      for (std::size_t i = 0; i + 1 < piece.size(); ++i) ++counts[{piece[i], piece[i + 1]}];
    std::pair<BytePairs::Merge, int> best{{}, 1};
    for (const auto& one : counts)
      if (one.second > best.second) best = one;  // the map is in order of pairs: the first of equals stays
    if (best.second < 2) break;
    const auto number = merged(static_cast<int>(merges.size()));
    for (auto& piece : pieces) {
      Symbols left;
      for (std::size_t i = 0; i < piece.size(); ++i) {
        const bool here = i + 1 < piece.size() && BytePairs::Merge(piece[i], piece[i + 1]) == best.first;
        left.push_back(here ? number : piece[i]);
        if (here) ++i;
      }
      piece = left;
    }
    merges.push_back(best.first);
  }
  return merges;
}

std::string random_text(Random& random, bool valid) {
  static const std::vector<std::string> kParts{"a", "b",    "ab", " ", "  ", "7",  "42", ".",           "--",
                                               "ß", "日本", "€",  "𝄞", "\t", "\n", "A",  "\xef\xbf\xbd"};
  std::string text;
  for (std::uint64_t i = random.below(40); i > 0; --i) {
    if (!valid && random.below(4) == 0)
      text += static_cast<char>(random.below(256));
    else
      text += kParts[random.below(kParts.size())];
  }
  return text;
}

TEST(BytePairs, LearnsTheWordsOfThePaper) {
  // "es" and "st" are there 9 times each: the smaller left symbol comes first. Then " l", "lo", "ow" 7 times.
  const std::vector<BytePairs::Merge> expected{{byte('e'), byte('s')},
                                               {merged(0), byte('t')},
                                               {byte(' '), byte('l')},
                                               {byte('o'), byte('w')},
                                               {merged(2), merged(3)}};
  EXPECT_EQ(of_the_paper(5).merges(), expected);
  EXPECT_EQ(of_the_paper(5).encode("low lowest"), (Symbols{merged(4), merged(4), merged(1)}));
  EXPECT_EQ(of_the_paper(0).encode("lo"), (Symbols{byte(' '), byte('l'), byte('o')}));
}

TEST(BytePairs, StopsWhereNoPairIsThereTwice) {
  const auto pairs = of_the_paper(1000);
  EXPECT_LT(pairs.merges().size(), 40U);
  EXPECT_EQ(pairs.encode("newest low").size(), 2U);
  EXPECT_TRUE(learn_byte_pairs({}, BytePairs::kFirstMerge + 10).merges().empty());
  EXPECT_THROW(learn_byte_pairs({}, 258), Error);
  EXPECT_THROW(learn_byte_pairs({}, BytePairs::kLargest + 1), Error);
}

TEST(BytePairs, LearnsAsTheDefinitionDoes) {
  Random random(3);
  for (int round = 0; round < 40; ++round) {
    std::vector<std::string> texts;
    for (int i = 0; i < 25; ++i) texts.push_back(random_text(random, true));
    texts.emplace_back("aaaaaaaaaaa aaaa aaaaaaa");  // pairs that overlap themselves
    const auto expected = by_definition(texts, 60);
    EXPECT_EQ(learn_byte_pairs(texts, BytePairs::kFirstMerge + 60).merges(), expected) << round;
    std::reverse(texts.begin(), texts.end());
    EXPECT_EQ(learn_byte_pairs(texts, BytePairs::kFirstMerge + 60).merges(), expected) << round;
  }
}

TEST(BytePairs, DecodesWhatItEncoded) {
  Random random(4);
  std::vector<std::string> texts;
  for (int i = 0; i < 200; ++i) texts.push_back(random_text(random, true));
  const auto pairs = learn_byte_pairs(texts, BytePairs::kFirstMerge + 300);
  BytePairEncoder encoder(pairs);
  std::size_t bytes = 0, symbols = 0;
  for (int i = 0; i < 3000; ++i) {
    const auto text = random_text(random, i % 2 == 0);
    const auto encoded = pairs.encode(text);
    ASSERT_EQ(pairs.decode(encoded), normalised_text(text));
    ASSERT_EQ(encoder.encode(text), encoded);
    for (const auto symbol : encoded) ASSERT_TRUE(symbol >= BytePairs::kFirstByte && symbol < pairs.vocabulary());
    bytes += normalised_text(text).size();
    symbols += encoded.size();
  }
  EXPECT_LT(symbols, bytes * 3 / 4);
  std::string every;
  for (int c = 1; c < 128; ++c) every += static_cast<char>(c);
  EXPECT_EQ(pairs.decode(pairs.encode(every)), normalised_text(every));
  const std::string zero("a\0b", 3);
  EXPECT_EQ(pairs.decode(pairs.encode(zero)), zero);
}

TEST(BytePairs, SaysSomethingForAnySymbols) {
  const auto pairs = of_the_paper(5);
  EXPECT_EQ(pairs.decode(Symbols{1, merged(4), 2, 0, 0, -5, 100'000}), "low");
  EXPECT_EQ(pairs.decode(Symbols{byte('a'), byte('\xc3'), byte('b')}),
            "a\xef\xbf\xbd"
            "b");
  EXPECT_EQ(pairs.decode({}), "");
  EXPECT_TRUE(pairs.encode(" \n ").empty());
}

TEST(BytePairs, CutsLongRunsIntoPieces) {
  const std::string long_word(10'000, 'x');
  std::size_t longest = 0, bytes = 0;
  for_each_piece(long_word + " 12ab--",
                 [&](std::string_view piece) { longest = std::max(longest, piece.size()), bytes += piece.size(); });
  EXPECT_EQ(longest, BytePairs::kLongestPiece);
  EXPECT_EQ(bytes, long_word.size() + 8);
  const auto pairs = learn_byte_pairs(std::vector<std::string>(2, long_word), BytePairs::kFirstMerge + 100);
  EXPECT_EQ(pairs.decode(pairs.encode(long_word)), long_word);
  EXPECT_EQ(parse_byte_pairs(to_text(pairs), "x"), pairs);
}

TEST(BytePairs, AreReadAsWritten) {
  for (const auto merges : {0, 5, 1000})
    EXPECT_EQ(parse_byte_pairs(to_text(of_the_paper(merges)), "x"), of_the_paper(merges));
}

void expect_corrupt(const std::string& text) {
  try {
    parse_byte_pairs(text, "x");
    FAIL() << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::corrupt);
    EXPECT_TRUE(std::string_view(error.what()).starts_with("[bpe] x:")) << error.what();
  }
}

TEST(BytePairs, RefuseADamagedFile) {
  const auto good = to_text(of_the_paper(12));
  for (std::size_t length = 0; length + 1 < good.size(); ++length) expect_corrupt(good.substr(0, length));
  for (std::size_t i = 0; i < good.size() - 1; ++i)
    for (const char other : {'\0', '\n', ' ', '-', '9', '\xff'})
      if (good[i] != other) expect_corrupt(std::string(good).replace(i, 1, 1, other));
  expect_corrupt(good + "x");
  // What the digest agrees with must make sense all the same.
  const auto with_digest = [](std::string text) { return text + digest(text) + "\n"; };
  expect_corrupt(with_digest("ddlbench byte pairs 1\n1\n3 259\n"));
  expect_corrupt(with_digest("ddlbench byte pairs 1\n1\n2 3\n"));
  expect_corrupt(with_digest("ddlbench byte pairs 1\n2\n3 4\n3 4\n"));
  expect_corrupt(with_digest("ddlbench byte pairs 1\n99999999999\n"));
  std::string growing = "ddlbench byte pairs 1\n10\n3 3\n";
  for (int i = 0; i < 9; ++i) growing += fmt::format("{} {}\n", merged(i), merged(i));
  expect_corrupt(with_digest(growing));  // 1,024 bytes in one symbol
}

}  // namespace
}  // namespace ddl
