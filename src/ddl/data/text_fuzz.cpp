#include <cstdint>
#include <cstdlib>

#include "ddl/core/error.h"
#include "ddl/core/utf8.h"
#include "ddl/data/bpe.h"
#include "ddl/data/message_text.h"
#include "ddl/data/mo_file.h"

// Message catalogues, what is made of their messages, and files of byte pairs: whatever the bytes, an answer or an
// Error. The first byte picks.

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void try_catalogue(std::string_view bytes) {
  for (const auto& message : ddl::parse_mo(bytes, "x").messages) {
    require(ddl::is_utf8(message.id) && !message.texts.empty());
    for (const auto& text : message.texts)
      for (const auto& pair : ddl::sentence_pairs(message.id, text))
        require(!pair.source.empty() && ddl::is_utf8(pair.target));
  }
}

void try_text(std::string_view bytes) {
  const std::vector<std::string> texts{std::string(bytes), std::string(bytes)};
  const auto pairs = ddl::learn_byte_pairs(texts, ddl::BytePairs::kFirstMerge + 50);
  require(pairs.decode(pairs.encode(bytes)) == ddl::normalised_text(bytes));
  require(ddl::parse_byte_pairs(ddl::to_text(pairs), "x") == pairs);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    switch (data[0] % 4) {
      case 0: try_catalogue(bytes); break;
      case 1: ddl::parse_byte_pairs(bytes, "x"); break;
      case 2: try_text(bytes); break;
      default: ddl::sentence_pairs(bytes.substr(0, bytes.size() / 2), bytes.substr(bytes.size() / 2)); break;
    }
  } catch (const ddl::Error&) {
    // Refused, as it may be.
  }
  return 0;
}
