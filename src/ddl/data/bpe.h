#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ddl {

/// Byte-pair encoding: text as numbers of a closed vocabulary, frequent words as one, rare ones in parts, any byte as
/// itself.
///
/// Numbers: 0, 1, 2 are padding, begin and end (SampleShape); 3 … 258 the bytes 0 … 255; from 259 on the merges of two
/// earlier symbols, in the order in which they were learnt. Text is normalised (normalised_text()) and cut into pieces
/// before it is encoded, and no merge goes over a piece's end: a run of letters (all that is not ASCII counts as
/// letters), of digits, or of other characters, each with the space before it, at most kLongestPiece bytes.
/// Source: Sennrich, Haddow & Birch, "Neural machine translation of rare words with subword units", ACL 2016; on bytes as
/// Radford et al., "Language models are unsupervised multitask learners", 2019. Threads: any number.
class BytePairs {
 public:
  static constexpr std::int64_t kFirstByte = 3, kFirstMerge = kFirstByte + 256;
  static constexpr std::size_t kLongestPiece = 48;
  static constexpr std::int64_t kLargest = 1 << 20;  ///< vocabulary

  using Merge = std::pair<std::int32_t, std::int32_t>;

  /// Errors: invalid_argument where a merge is of symbols that are not there yet, or comes twice.
  explicit BytePairs(std::vector<Merge> merges);

  /// Numbers that are in use: those of text are below it.
  std::int64_t vocabulary() const { return kFirstMerge + static_cast<std::int64_t>(merges_.size()); }
  const std::vector<Merge>& merges() const { return merges_; }

  /// Merges in the order learnt. Never a number below kFirstByte.
  std::vector<std::int32_t> encode(std::string_view text) const;
  /// The text; padding, begin, end and numbers beyond the vocabulary say nothing. decode(encode(s)) ==
  /// normalised_text(s). Numbers that make no UTF-8 together (a network may say such) give U+FFFD in its place.
  std::string decode(std::span<const std::int32_t> symbols) const;

  bool operator==(const BytePairs& other) const { return merges_ == other.merges_; }

 private:
  friend class BytePairEncoder;
  void encode_piece(std::string_view piece, std::vector<std::int32_t>& to) const;

  std::vector<Merge> merges_;
  std::unordered_map<std::uint64_t, std::int32_t> numbers_;  ///< of a pair
  std::vector<std::string> spelled_;                         ///< bytes of each merge
};

/// encode() of many texts: pieces that came before are looked up. Threads: one caller.
class BytePairEncoder {
 public:
  explicit BytePairEncoder(const BytePairs& pairs) : pairs_(pairs) {}
  std::vector<std::int32_t> encode(std::string_view text);

 private:
  const BytePairs& pairs_;
  std::unordered_map<std::string, std::vector<std::int32_t>> known_;
};

/// Learns merges until `vocabulary` numbers are in use or no pair is there twice. The pair that is there most often is
/// merged; of equals the one whose left, then right symbol has the smaller number. The same on every machine. Cost:
/// O(bytes of distinct pieces * log) time and memory. Errors: invalid_argument unless kFirstMerge <= vocabulary <=
/// kLargest.
BytePairs learn_byte_pairs(std::span<const std::string> texts, std::int64_t vocabulary);

/// A text file of one merge a line, with its digest at the end.
std::string to_text(const BytePairs& pairs);
/// Errors: corrupt, as `[bpe] <place>: what; got …, expected …` with the line.
BytePairs parse_byte_pairs(std::string_view text, const std::string& place);

/// Calls `piece` for each piece of normalised text, in order; together they are one space and the text.
template <typename Use>
void for_each_piece(std::string_view normalised, Use&& piece) {
  const auto kind = [](char c) {
    const auto byte = static_cast<std::uint8_t>(c);
    if (byte >= 0x80 || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z')) return 1;
    return byte >= '0' && byte <= '9' ? 2 : 3;
  };
  if (normalised.empty()) return;
  const std::string text = " " + std::string(normalised);
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin + (text[begin] == ' ' ? 1 : 0);
    const int wanted = end < text.size() ? kind(text[end]) : 0;
    while (end < text.size() && text[end] != ' ' && kind(text[end]) == wanted && end - begin < BytePairs::kLongestPiece)
      ++end;
    piece(std::string_view(text).substr(begin, end - begin));
    begin = end;
  }
}

}  // namespace ddl
