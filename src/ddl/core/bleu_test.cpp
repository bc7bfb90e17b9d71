#include "ddl/core/bleu.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "ddl/core/error.h"
#include "ddl/core/random.h"
#include "ddl/core/text.h"

namespace ddl {
namespace {

using Words = std::vector<std::int64_t>;
using Several = std::vector<Words>;

/// The definition, written down once more without care for speed.
double by_definition(const std::vector<Words>& hypotheses, const std::vector<std::vector<Words>>& references,
                     int orders) {
  double c = 0, r = 0, logarithms = 0;
  for (int n = 1; n <= orders; ++n) {
    double clipped = 0, all = 0;
    for (std::size_t s = 0; s < hypotheses.size(); ++s) {
      const auto ngrams = [n](const Words& words) {
        std::map<Words, int> counts;
        for (std::size_t i = 0; i + static_cast<std::size_t>(n) <= words.size(); ++i)
          ++counts[{words.begin() + static_cast<std::ptrdiff_t>(i),
                    words.begin() + static_cast<std::ptrdiff_t>(i) + n}];
        return counts;
      };
      for (const auto& [ngram, times] : ngrams(hypotheses[s])) {
        int most = 0;
        for (const auto& reference : references[s]) {
          auto counts = ngrams(reference);
          most = std::max(most, counts[ngram]);
        }
        clipped += std::min(times, most);
        all += times;
      }
    }
    if (clipped == 0) return 0;
    logarithms += std::log(clipped / all) / orders;
  }
  for (std::size_t s = 0; s < hypotheses.size(); ++s) {
    const auto length = static_cast<double>(hypotheses[s].size());
    std::vector<std::pair<double, double>> distances;
    for (const auto& reference : references[s])
      distances.emplace_back(std::abs(static_cast<double>(reference.size()) - length),
                             static_cast<double>(reference.size()));
    c += length;
    r += std::min_element(distances.begin(), distances.end())->second;
  }
  return 100 * (c > r ? 1 : std::exp(1 - r / c)) * std::exp(logarithms);
}

std::string lower(std::string text) {
  for (auto& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

// Papineni et al. 2002, section 2: the examples and the numbers that the text states for them, without regard to case.
TEST(Bleu, CountsTheExamplesOfThePaper) {
  const std::vector<std::string> cats{"the cat is on the mat", "there is a cat on the mat"};
  const auto the = bleu_counts("the the the the the the the", cats);
  EXPECT_EQ(the.matched(1), 2);
  EXPECT_EQ(the.possible(1), 7);
  EXPECT_EQ(the.matched(2), 0);
  EXPECT_EQ(bleu(the), 0);

  const std::vector<std::string> guides{
      lower("It is a guide to action that ensures that the military will forever heed Party commands"),
      lower("It is the guiding principle which guarantees the military forces always being under the command of the "
            "Party"),
      lower("It is the practical guide for the army always to heed the directions of the party")};
  const auto first = bleu_counts(
      lower("It is a guide to action which ensures that the military always obeys the commands of the party"), guides);
  const auto second =
      bleu_counts(lower("It is to insure the troops forever hearing the activity guidebook that party direct"), guides);
  EXPECT_EQ(first.matched(1), 17);
  EXPECT_EQ(first.possible(1), 18);
  EXPECT_EQ(second.matched(1), 8);
  EXPECT_EQ(second.possible(1), 14);
  EXPECT_EQ(first.matched(2), 10);
  EXPECT_EQ(first.possible(2), 17);
  EXPECT_EQ(second.matched(2), 1);
  EXPECT_EQ(second.possible(2), 13);
  EXPECT_GT(bleu(first), 0);
  EXPECT_EQ(bleu(second), 0);
}

TEST(Bleu, IsWhatIsWorkedOutByHand) {
  // 1 2 3 4 5 9 against 1 2 3 4 5 6: precisions 5/6, 4/5, 3/4, 2/3; no penalty at equal length. Product 1/3.
  const auto one = bleu_counts(Words{1, 2, 3, 4, 5, 9}, Several{Words{1, 2, 3, 4, 5, 6}});
  EXPECT_NEAR(bleu(one), 100 * std::pow(1.0 / 3, 0.25), 1e-12);
  EXPECT_NEAR(bleu(one, 1), 100 * 5.0 / 6, 1e-12);
  EXPECT_NEAR(bleu(one, 2), 100 * std::sqrt(2.0 / 3), 1e-12);
  EXPECT_NEAR(bleu(one, 3), 100 * std::cbrt(0.5), 1e-12);
  // Four of five words, all right: precisions 1, penalty exp(1 - 5/4).
  const auto brief = bleu_counts(Words{1, 2, 3, 4}, Several{Words{1, 2, 3, 4, 5}});
  EXPECT_NEAR(bleu(brief), 100 * std::exp(-0.25), 1e-12);
  EXPECT_NEAR(brevity_penalty(brief), std::exp(-0.25), 1e-15);
  // Longer than the reference: no penalty, 4/5 3/4 2/3 1/2.
  EXPECT_NEAR(bleu(bleu_counts(Words{1, 2, 3, 4, 5}, Several{Words{1, 2, 3, 4}})), 100 * std::pow(0.2, 0.25), 1e-12);
}

TEST(Bleu, IsAHundredOfTheReferenceAndZeroOfNothing) {
  const Several references{Words{7, 8, 7, 8, 7}, Words{1, 2, 3}};
  EXPECT_DOUBLE_EQ(bleu(bleu_counts(Words{7, 8, 7, 8, 7}, references)), 100);
  EXPECT_EQ(bleu(bleu_counts(Words{}, references)), 0);
  EXPECT_EQ(bleu(BleuCounts{}), 0);
  EXPECT_EQ(brevity_penalty(BleuCounts{}), 0);
  // Three words hold no 4-gram: nothing to be matched.
  EXPECT_EQ(bleu(bleu_counts(Words{1, 2, 3}, references)), 0);
  EXPECT_DOUBLE_EQ(bleu(bleu_counts(Words{1, 2, 3}, references), 3), 100);
}

TEST(Bleu, TakesTheClosestReferenceAndOfTwoTheShorter) {
  const auto words = [](std::size_t n) { return Words(n, 1); };
  EXPECT_EQ(bleu_counts(words(5), Several{words(9), words(6), words(2)}).reference_words(), 6);
  EXPECT_EQ(bleu_counts(words(5), Several{words(7), words(3)}).reference_words(), 3);
  EXPECT_EQ(bleu_counts(words(5), Several{words(3), words(7)}).reference_words(), 3);
}

TEST(Bleu, AddsUpAndAgreesWithTheDefinition) {
  Random random(1);
  for (int round = 0; round < 50; ++round) {
    std::vector<Words> hypotheses;
    std::vector<std::vector<Words>> references;
    BleuCounts sum;
    const auto draw = [&](std::uint64_t least) {
      Words words(least + random.below(12));
      for (auto& word : words) word = static_cast<std::int64_t>(random.below(4)) * 1'000'000'007;
      return words;
    };
    for (std::uint64_t s = 0; s < 1 + random.below(6); ++s) {
      hypotheses.push_back(draw(0));
      references.emplace_back();
      for (std::uint64_t i = 0; i <= random.below(3); ++i) references.back().push_back(draw(1));
      sum += bleu_counts(hypotheses.back(), references.back());
    }
    for (int orders = 1; orders <= 4; ++orders)
      EXPECT_NEAR(bleu(sum, orders), by_definition(hypotheses, references, orders), 1e-9) << round << " " << orders;
  }
}

TEST(Bleu, CutsTextAsIsCustomary) {
  const auto cut = [](std::string_view text) { return join(bleu_words(text), "|"); };
  EXPECT_EQ(cut("Hello, world!"), "Hello|,|world|!");
  EXPECT_EQ(cut("1,234.5 is 3.14, no 7-bit."), "1,234.5|is|3.14|,|no|7|-|bit|.");
  EXPECT_EQ(cut("well-known don't (sic) a/b"), "well-known|don't|(|sic|)|a|/|b");
  EXPECT_EQ(cut("&quot;x&quot; &amp; &lt;y&gt; &nbsp;"), "\"|x|\"|&|<|y|>|&|nbsp|;");
  EXPECT_EQ(cut("Grüße… \t\n über"), "Grüße…|über");
  EXPECT_EQ(cut("...5"), ".|.|.|5");
  EXPECT_EQ(cut(" "), "");
}

TEST(Bleu, RefusesWhatHasNoMeaning) {
  EXPECT_THROW(bleu_counts(Words{1}, {}), Error);
  EXPECT_THROW(bleu(BleuCounts{}, 0), Error);
  EXPECT_THROW(bleu(BleuCounts{}, 5), Error);
}

}  // namespace
}  // namespace ddl
