#include "ddl/data/sentences.h"

#include <algorithm>

#include "ddl/core/error.h"

namespace ddl {

const Sentences& require_sentences(const Dataset& dataset) {
  const auto* sentences = dynamic_cast<const Sentences*>(&dataset);
  if (sentences == nullptr)
    throw Error(Code::unsupported, "[dataset] unsupported: its samples have no words that are text");
  return *sentences;
}

void put_target(std::span<const std::int32_t> words, int length, std::int64_t* target) {
  invariant(static_cast<std::int64_t>(words.size()) + 2 <= length, "a sentence fits between its begin and its end");
  *target = SampleShape::kBegin;
  auto* end = std::copy(words.begin(), words.end(), target + 1);
  *end++ = SampleShape::kEnd;
  std::fill(end, target + length, SampleShape::kPadding);
}

void put_source(std::span<const std::int32_t> words, int length, std::int64_t* source) {
  invariant(static_cast<std::int64_t>(words.size()) <= length, "a sentence fits");
  std::fill(std::copy(words.begin(), words.end(), source), source + length, SampleShape::kPadding);
}

}  // namespace ddl
