#pragma once

#include <string>
#include <vector>

#include "ddl/data/dataset.h"
#include "ddl/data/message_text.h"

namespace ddl {

/// Sentence pairs, apart for training and for test. A pair's part follows from a hash of its source's letters without
/// regard to case: about one in twenty is for test, and no source that differs from another in case, digits, spaces or
/// punctuation alone is in both.
struct TextCorpus {
  std::vector<SentencePair> train, test;
};

/// The corpus of data set `name` between two languages: every catalogue under the folder that was asked for, or under
/// $DDLBENCH_DATA/<name> where that is there; else corpus() of catalogues.h. Errors: those of read_catalogues();
/// not_found naming the places looked in, and the packages, where a part has no pair.
TextCorpus read_text_corpus(const std::string& name, const DatasetOptions& options, const std::string& from,
                            const std::string& to);

/// Whether a source belongs to the test part.
bool is_test_sentence(const std::string& source);

/// Why the catalogues are not here, in a line; empty where they are. Reads none of them.
std::string missing_text_corpus(const std::string& name, const DatasetOptions& options, const std::string& language);

}  // namespace ddl
