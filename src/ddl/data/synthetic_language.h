#pragma once

#include "ddl/data/dataset.h"

namespace ddl {

/// A made-up stream of words whose least possible loss is known.
///
/// The next word depends on the two before it: on which of kLanguageGroups groups the one before last is in, and on
/// the last one. Each of these contexts has kLanguageChoices possible next words, drawn from the seed, with
/// probabilities that are the same everywhere: 1, 1/2, 1/3, … parted by their sum. The conditional entropy is therefore
/// the same at every place, and no model can do better than it. (Before the first word stand two begins.) A sample
/// depends on (seed, part, index).
/// Shape: as given; 16 words or more. Sizes: as asked, or 20,000 and 1,000.
DatasetPair make_synthetic_language(const SampleShape& shape, const DatasetOptions& options);

/// That entropy, in nats per word: 1.8158 with the constants below. A unigram model stays near log(words).
double synthetic_language_entropy();

inline constexpr int kLanguageGroups = 4, kLanguageChoices = 8;

}  // namespace ddl
