#include "ddl/core/bleu.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <unordered_map>

#include "ddl/core/error.h"

namespace ddl {
namespace {

constexpr auto kOrders = static_cast<std::size_t>(BleuCounts::kOrders);

/// Up to four words, numbered within the sentence; those that are not there are 0.
using Ngram = std::array<std::uint32_t, kOrders>;

/// Numbers the words of one hypothesis and its references, from 1 on.
template <typename Word>
class Numbering {
 public:
  template <typename Words>
  std::vector<std::uint32_t> operator()(const Words& words) {
    std::vector<std::uint32_t> numbers;
    numbers.reserve(words.size());
    for (const auto& word : words)
      numbers.push_back(known_.try_emplace(word, static_cast<std::uint32_t>(known_.size() + 1)).first->second);
    return numbers;
  }

 private:
  std::unordered_map<Word, std::uint32_t> known_;
};

struct Counted {
  Ngram ngram;
  std::int64_t times;
};

/// The n-grams of one order in ascending order, each once.
std::vector<Counted> count(const std::vector<std::uint32_t>& words, std::size_t order) {
  std::vector<Ngram> all;
  for (std::size_t i = 0; i + order <= words.size(); ++i) {
    Ngram ngram{};
    std::copy_n(words.begin() + static_cast<std::ptrdiff_t>(i), order, ngram.begin());
    all.push_back(ngram);
  }
  std::sort(all.begin(), all.end());
  std::vector<Counted> counted;
  for (const auto& ngram : all) {
    if (counted.empty() || counted.back().ngram != ngram) counted.push_back({ngram, 0});
    ++counted.back().times;
  }
  return counted;
}

std::int64_t times_in(const std::vector<Counted>& counted, const Ngram& ngram) {
  const auto found = std::lower_bound(counted.begin(), counted.end(), ngram,
                                      [](const Counted& one, const Ngram& wanted) { return one.ngram < wanted; });
  return found != counted.end() && found->ngram == ngram ? found->times : 0;
}

BleuCounts counts_of(const std::vector<std::uint32_t>& hypothesis,
                     const std::vector<std::vector<std::uint32_t>>& references) {
  if (references.empty()) throw Error(Code::invalid_argument, "[bleu] references; got none, expected 1 or more");
  BleuCounts counts;
  for (std::size_t order = 1; order <= kOrders; ++order) {
    std::vector<std::vector<Counted>> known;
    for (const auto& reference : references) known.push_back(count(reference, order));
    for (const auto& [ngram, times] : count(hypothesis, order)) {
      std::int64_t most = 0;
      for (const auto& reference : known) most = std::max(most, times_in(reference, ngram));
      counts.values[order - 1] += std::min(times, most);
      counts.values[kOrders + order - 1] += times;
    }
  }
  const auto length = static_cast<std::int64_t>(hypothesis.size());
  auto closest = static_cast<std::int64_t>(references.front().size());
  for (const auto& reference : references) {
    const auto own = static_cast<std::int64_t>(reference.size());
    const auto better = std::abs(closest - length) - std::abs(own - length);
    if (better > 0 || (better == 0 && own < closest)) closest = own;
  }
  counts.values[2 * kOrders] = length;
  counts.values[2 * kOrders + 1] = closest;
  return counts;
}

bool digit(char c) { return c >= '0' && c <= '9'; }

/// Punctuation that stands alone wherever it is: ASCII's but for . , - and the apostrophe.
bool alone(char c) {
  return (c >= '!' && c <= '&') || (c >= '(' && c <= '+') || c == '/' || (c >= ':' && c <= '@') ||
         (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

std::string unescaped(std::string_view text) {
  static constexpr std::pair<std::string_view, char> kEscapes[] = {
      {"&quot;", '"'}, {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}};
  std::string plain;
  while (!text.empty()) {
    const auto found = std::find_if(std::begin(kEscapes), std::end(kEscapes),
                                    [&](const auto& e) { return text.starts_with(e.first); });
    const bool escape = found != std::end(kEscapes);
    plain += escape ? found->second : text.front();
    text.remove_prefix(escape ? found->first.size() : 1);
  }
  return plain;
}

}  // namespace

BleuCounts& BleuCounts::operator+=(const BleuCounts& other) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += other.values[i];
  return *this;
}

BleuCounts bleu_counts(std::span<const std::int64_t> hypothesis,
                       std::span<const std::vector<std::int64_t>> references) {
  Numbering<std::int64_t> number;
  std::vector<std::vector<std::uint32_t>> known;
  for (const auto& reference : references) known.push_back(number(reference));
  return counts_of(number(hypothesis), known);
}

BleuCounts bleu_counts(std::string_view hypothesis, std::span<const std::string> references) {
  Numbering<std::string> number;
  std::vector<std::vector<std::uint32_t>> known;
  for (const auto& reference : references) known.push_back(number(bleu_words(reference)));
  return counts_of(number(bleu_words(hypothesis)), known);
}

double precision(const BleuCounts& counts, int order) {
  const auto possible = counts.possible(order);
  return possible > 0 ? static_cast<double>(counts.matched(order)) / static_cast<double>(possible) : 0;
}

double brevity_penalty(const BleuCounts& counts) {
  const auto c = static_cast<double>(counts.hypothesis_words()), r = static_cast<double>(counts.reference_words());
  if (c <= 0) return 0;
  return c > r ? 1 : std::exp(1 - r / c);
}

double bleu(const BleuCounts& counts, int orders) {
  if (orders < 1 || orders > BleuCounts::kOrders)
    throw Error(Code::invalid_argument,
                fmt::format("[bleu] orders; got {}, expected 1 to {}", orders, BleuCounts::kOrders));
  double logarithms = 0;
  for (int order = 1; order <= orders; ++order) {
    if (counts.matched(order) <= 0) return 0;
    logarithms += std::log(precision(counts, order));
  }
  return 100 * brevity_penalty(counts) * std::exp(logarithms / orders);
}

std::vector<std::string> bleu_words(std::string_view text) {
  const auto plain = unescaped(text);
  std::vector<std::string> words;
  bool open = false;  // the last word may go on
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const char c = plain[i];
    if (c == ' ' || (c >= '\t' && c <= '\r')) {
      open = false;
      continue;
    }
    const bool behind_digit = i > 0 && digit(plain[i - 1]);
    const bool before_digit = i + 1 < plain.size() && digit(plain[i + 1]);
    const bool cut =
        alone(c) || ((c == '.' || c == ',') && !(behind_digit && before_digit)) || (c == '-' && behind_digit);
    if (cut || !open) words.emplace_back();
    words.back() += c;
    open = !cut;
  }
  return words;
}

}  // namespace ddl
