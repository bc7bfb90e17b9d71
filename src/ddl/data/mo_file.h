#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddl {

/// One message of a translated catalogue: valid UTF-8 throughout.
struct CatalogueEntry {
  std::string context;             ///< where it appears; mostly empty
  std::string id;                  ///< the English text
  std::string plural;              ///< the English text for several; empty where there is none
  std::vector<std::string> texts;  ///< its translation; with a plural one for each form of the language

  bool operator==(const CatalogueEntry&) const = default;
};

/// What a .mo file holds.
struct Catalogue {
  std::string header;   ///< the translation of the empty text: who, when, how
  std::string charset;  ///< as the header says; empty where it does not
  std::vector<CatalogueEntry> messages;
  std::int64_t skipped = 0;  ///< messages that are no text in that charset, or whose charset is not known here
};

/// Reads a compiled message catalogue of GNU gettext, of either byte order. Messages come in the file's order,
/// converted to UTF-8. Every offset is checked, and no more is allocated than a few times what the file holds. Errors:
/// `[mo] <path>: what at byte …; got …, expected …`: not_found, io, corrupt, unsupported (a later revision). Source:
/// GNU gettext manual, "The Format of GNU MO Files".
Catalogue read_mo(const std::string& path);

/// The same of bytes; `place` begins the messages.
Catalogue parse_mo(std::string_view bytes, const std::string& place);

}  // namespace ddl
