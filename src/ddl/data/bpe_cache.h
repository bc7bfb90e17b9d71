#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ddl/data/bpe.h"

namespace ddl {

/// $XDG_CACHE_HOME/ddlbench, else ~/.cache/ddlbench; empty where there is neither.
std::string cache_folder();

/// learn_byte_pairs(texts, vocabulary), kept in `folder` under a name that follows from both, so that it is learnt
/// once. The answer never depends on the folder: a file that is damaged is learnt and written anew, and one that cannot
/// be written is not.
BytePairs cached_byte_pairs(std::span<const std::string> texts, std::int64_t vocabulary, const std::string& folder);

}  // namespace ddl
