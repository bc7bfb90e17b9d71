#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ddl/data/message_text.h"

namespace ddl {

/// Sentences and their translations out of message catalogues.
struct ParallelText {
  std::vector<SentencePair> pairs;  ///< each source once, in the order of the catalogues, then of the messages
  std::vector<std::string> files;   ///< what was read
  std::int64_t skipped = 0;         ///< messages that are no text in their catalogue's charset
};

/// Folders as gettext has them: <folder>/<language>/LC_MESSAGES/<domain>.mo.
struct CatalogueSearch {
  std::vector<std::string> folders;  ///< of several that have a domain, the first
  std::vector<std::string> domains;  ///< in this order, those that are there; empty: all, in alphabetical order
  std::string from = "en", to = "de";
};

/// Reads every catalogue of the search. English is the messages themselves; two other languages are joined over the
/// English message, where both translate it. Plural messages give the pair of one and, where the language has one or
/// two forms, that of many. Of several translations of the same source the first is kept.
/// Errors: those of read_mo(); invalid_argument where both languages are the same or one is no name of a language.
ParallelText read_catalogues(const CatalogueSearch& search);

/// The catalogues that make the data sets `translation` and `language`, and the Debian packages that ship them: fixed,
/// so that what is learnt does not depend on what else is installed.
struct CorpusPart {
  std::string package;
  std::string domain;
};
const std::vector<CorpusPart>& corpus();

/// Where to look for them: /usr/share/locale, then where tools/setup.sh unpacks packages on systems that install no
/// translations.
std::vector<std::string> corpus_folders();

/// Those of corpus() that are there for a language.
std::vector<CorpusPart> found_parts(const std::vector<std::string>& folders, const std::string& language);

}  // namespace ddl
