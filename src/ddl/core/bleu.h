#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddl {

/// What BLEU is computed from, of any number of sentences: whole numbers that add up over batches and ranks (sum of
/// `values`).
struct BleuCounts {
  static constexpr int kOrders = 4;

  /// Clipped matches of order 1 … 4; n-grams of the hypotheses of order 1 … 4; words of the hypotheses; words of the
  /// references, of each sentence's the one whose length is closest to its hypothesis'.
  std::array<std::int64_t, 2 * kOrders + 2> values{};

  std::int64_t matched(int order) const { return values.at(static_cast<std::size_t>(order - 1)); }
  std::int64_t possible(int order) const { return values.at(static_cast<std::size_t>(kOrders + order - 1)); }
  std::int64_t hypothesis_words() const { return values[2 * kOrders]; }
  std::int64_t reference_words() const { return values[2 * kOrders + 1]; }

  BleuCounts& operator+=(const BleuCounts& other);
  bool operator==(const BleuCounts&) const = default;
};

/// Counts of one sentence. An n-gram of the hypothesis counts as matched at most as often as the reference that has it
/// most often has it. Of two references equally close in length the shorter one counts. Errors: invalid_argument
/// without a reference.
BleuCounts bleu_counts(std::span<const std::int64_t> hypothesis, std::span<const std::vector<std::int64_t>> references);

/// The same of texts, cut by bleu_words().
BleuCounts bleu_counts(std::string_view hypothesis, std::span<const std::string> references);

/// Corpus BLEU, 0 … 100: brevity penalty times the geometric mean of the clipped precisions of order 1 … `orders`.
/// No smoothing: 0 where no n-gram of some order is matched, also where all hypotheses are shorter than `orders`.
/// Errors: invalid_argument unless 1 <= orders <= 4.
/// Source: Papineni, Roukos, Ward & Zhu, "BLEU: a method for automatic evaluation of machine translation", ACL 2002.
double bleu(const BleuCounts& counts, int orders = BleuCounts::kOrders);

/// Its two parts. precision: 0 … 1, and 0 where there is no n-gram. brevity_penalty: 1 where the hypotheses are longer
/// than the references, else exp(1 - r/c); 0 where they are empty.
double precision(const BleuCounts& counts, int order);
double brevity_penalty(const BleuCounts& counts);

/// Words as BLEU scores are customarily compared on: punctuation stands alone, except full stop and comma between
/// digits, hyphen not behind a digit, and apostrophe. Letters beyond ASCII are never cut. Source: NIST's
/// mteval-v13a.pl, language-independent part and tokenisation of Western languages.
std::vector<std::string> bleu_words(std::string_view text);

}  // namespace ddl
