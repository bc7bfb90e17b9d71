#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddl {

struct SentencePair {
  std::string source;
  std::string target;

  bool operator==(const SentencePair&) const = default;
};

/// What a message and its translation teach: none, one or several pairs of sentences, normalised.
///
/// - Where both have the same number of paragraphs (parted by blank lines), each is a pair; else the whole is. Other
///   line breaks are spaces.
/// - The mark of an access key, `_` or `&` before a letter, goes where each side has exactly one and the words that
///   hold it differ; so does the form "(_K)" of languages that do not write letters. `file_name` on both sides stays.
/// - Each directive of printf, Python or GCC (`%-5.2lf`, `%2$s`, `%(name)s`, `%qE`) becomes `%s`, `%%` a per cent
///   sign, and GCC's quotes `%<` `%>` apostrophes.
/// - Left out: untranslated ones (both sides equal), those without a letter, longer than kLongestSentence bytes, of
///   lengths that do not belong together (one over three times the other and 20 bytes), with control characters, and
///   with another number of directives or of `|` on the two sides; and the credits of translators.
std::vector<SentencePair> sentence_pairs(std::string_view source, std::string_view target);

inline constexpr std::size_t kLongestSentence = 500;  ///< bytes

}  // namespace ddl
