#pragma once

#include <memory>

#include "ddl/nn/network.h"
#include "ddl/train/decode.h"

namespace ddl {

/// A network that says what comes next to each of the samples of `input`, whose target is not read; at most `longest` words. What
/// does not depend on what is said (an encoder) is computed here, once. The network must outlive the speaker.

/// Computes only the new word, from what each layer kept of those before it. The network goes word by word (past.h).
std::unique_ptr<Speaker> make_word_speaker(Network& network, const NetworkInput& input, std::int64_t longest);
/// Computes all words again for each new one: any network.
std::unique_ptr<Speaker> make_whole_speaker(Network& network, const NetworkInput& input);
/// The first of them that can.
std::unique_ptr<Speaker> make_speaker(Network& network, const NetworkInput& input, std::int64_t longest);

}  // namespace ddl
