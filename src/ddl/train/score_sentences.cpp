#include "ddl/train/score_sentences.h"

#include <vector>

#include "ddl/train/decode.h"

namespace ddl {

bool has_sentences(const SampleShape& shape) {
  return shape.objective == Objective::translation || shape.objective == Objective::captioning;
}

// MERGE (branch text): where the data set has Sentences, count bleu_counts(text(said[i]), references(given.input.samples[i])) instead:
// BLEU is of words, and a vocabulary may be of pieces of them.
BleuCounts score_sentences(Network& network, const Example& given, const SampleShape& shape) {
  const auto said = decode_greedily(network, given.input, shape.target_length);
  const auto expected = given.expected.to(at::kCPU).contiguous();
  const auto* words = expected.const_data_ptr<std::int64_t>();
  BleuCounts counts;
  for (const auto& hypothesis : said) {
    std::vector<std::vector<std::int64_t>> references(1);
    for (std::int64_t place = 0; place < expected.size(1); ++place)
      if (words[place] != SampleShape::kEnd && words[place] != SampleShape::kPadding) references[0].push_back(words[place]);
    counts += bleu_counts(hypothesis, references);
    words += expected.size(1);
  }
  return counts;
}

}  // namespace ddl
