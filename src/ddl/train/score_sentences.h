#pragma once

#include "ddl/core/bleu.h"
#include "ddl/data/sentences.h"
#include "ddl/nn/network.h"
#include "ddl/train/objective.h"

namespace ddl {

/// What a network is to say by itself about samples of this data set; null unless that is what it is for: translation and
/// captioning.
const Sentences* sentences_of(const Dataset& dataset);

/// What the network says greedily for these samples (decode.h), as text, against every right answer of each, which are
/// never cut off.
BleuCounts score_sentences(Network& network, const Example& given, const SampleShape& shape, const Sentences& sentences);

}  // namespace ddl
