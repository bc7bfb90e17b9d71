#pragma once

#include "ddl/data/dataset.h"

namespace ddl {

/// Data set `translation`: sentences and their translations from the message catalogues of Debian's packages
/// (text_corpus.h), as byte pairs (bpe.h) that are learnt from both languages' training sentences together. Options:
/// from=en, to=de, vocabulary=8000 (numbers in use, at most), length=64 (words of a sentence with its begin and end;
/// longer pairs are left out). Both parts have Sentences; a reference is the whole translation.
/// digest(): languages, options, every word and merge. Errors: as read_text_corpus(); invalid_argument on an option.
DatasetPair open_translation(const DatasetOptions& options);

SampleShape translation_shape(const DatasetOptions& options);
/// Why it can only be had with `synthetic`; empty where it need not.
std::string missing_translation(const DatasetOptions& options);

}  // namespace ddl
