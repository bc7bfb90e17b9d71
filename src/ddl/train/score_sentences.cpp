#include "ddl/train/score_sentences.h"

#include "ddl/train/decode.h"

namespace ddl {

const Sentences* sentences_of(const Dataset& dataset) {
  const auto objective = dataset.shape().objective;
  if (objective != Objective::translation && objective != Objective::captioning) return nullptr;
  return &require_sentences(dataset);
}

BleuCounts score_sentences(Network& network, const Example& given, const SampleShape& shape, const Sentences& sentences) {
  const auto said = decode_greedily(network, given.input, shape.target_length);
  BleuCounts counts;
  for (std::size_t i = 0; i < said.size(); ++i) counts += bleu_counts(sentences.text(said[i]), sentences.references(given.input.samples[i]));
  return counts;
}

}  // namespace ddl
