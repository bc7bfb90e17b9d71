#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ddl/data/dataset.h"

namespace ddl {

/// The optional power of a Dataset whose words are text: for scoring what a network said, and for showing it to people.
/// Reached by dynamic_cast from Dataset. Threads: any number at once.
class Sentences {
 public:
  virtual ~Sentences() = default;
  /// What `words` say up to the first end (kEnd); begin and padding say nothing. For any numbers, in the target
  /// language.
  virtual std::string text(std::span<const std::int64_t> words) const = 0;
  /// What sample `index` is made from, in words; empty where it is an image.
  virtual std::string source(std::int64_t index) const = 0;
  /// Right answers for sample `index`, one or more, as text() would say them, never cut off: what BLEU is counted
  /// against.
  virtual std::vector<std::string> references(std::int64_t index) const = 0;
};

/// That side of a data set. Errors: unsupported where it has none.
const Sentences& require_sentences(const Dataset& dataset);

/// Writes begin, words, end and padding, `length` numbers in all. There must be room: words.size() + 2 <= length.
void put_target(std::span<const std::int32_t> words, int length, std::int64_t* target);
/// Writes words and padding.
void put_source(std::span<const std::int32_t> words, int length, std::int64_t* source);

}  // namespace ddl
