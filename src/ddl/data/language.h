#pragma once

#include "ddl/data/dataset.h"

namespace ddl {

/// Data set `language`: windows of a stream of words; each is to be said from those before it.
///
/// Real: the English messages of the catalogues that make `translation` (text_corpus.h), catalogue after catalogue, as
/// byte pairs learnt from the training ones, with an end behind each message. Made up (`synthetic`):
/// synthetic_language.h.
/// A sample's target is a begin and the next length-1 words of the stream; no padding, every
/// sample counts length-1. The last window that is not full is left out.
/// Options: vocabulary=8000, length=128. Errors: as open_translation().
DatasetPair open_language(const DatasetOptions& options);

SampleShape language_shape(const DatasetOptions& options);
/// Why it can only be had with `synthetic`; empty where it need not.
std::string missing_language(const DatasetOptions& options);

}  // namespace ddl
