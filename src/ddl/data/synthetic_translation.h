#pragma once

#include "ddl/data/dataset.h"

namespace ddl {

/// A made-up pair of languages that a network can learn to translate.
///
/// Each has half of the vocabulary; a lexicon drawn from the seed says which word stands for which. Words are nouns,
/// verbs and adjectives; the frequent ones are far more frequent (a word's rank is uniform on a logarithmic scale). A
/// sentence is clauses of
///   [adjective] noun verb [adjective] noun
/// and its translation has in each clause every adjective behind its noun, and the verb at the end: word for word, in
/// an order that follows from the source alone. A sample depends on (seed, part, index). Both parts have Sentences
/// (words are made-up syllables).
/// Shape: as given; needs a vocabulary of 64 or more and lengths of 8 or more. Sizes: as
/// asked, or like the real data set's.
DatasetPair make_synthetic_translation(const SampleShape& shape, const DatasetOptions& options);

}  // namespace ddl
