#pragma once

#include "ddl/core/bleu.h"
#include "ddl/data/dataset.h"
#include "ddl/nn/network.h"
#include "ddl/train/objective.h"

namespace ddl {

/// Whether what a network says by itself is compared with what is right: translation and captioning.
bool has_sentences(const SampleShape& shape);

/// What the network says greedily for these samples (decode.h), against what each was to be.
BleuCounts score_sentences(Network& network, const Example& given, const SampleShape& shape);

}  // namespace ddl
