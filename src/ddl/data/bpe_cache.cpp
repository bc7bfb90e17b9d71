#include "ddl/data/bpe_cache.h"

#include <cstdlib>
#include <filesystem>

#include "ddl/core/error.h"
#include "ddl/core/hash.h"
#include "ddl/core/json.h"

namespace ddl {
namespace {

namespace fs = std::filesystem;

// Part of the name: goes up whenever the same texts would give other merges.
constexpr int kVersion = 1;

std::string folder_in_environment(const char* variable, const char* below) {
  const char* value = std::getenv(variable);
  // A relative one is to be ignored: XDG base directory specification.
  return value != nullptr && *value == '/' ? (fs::path(value) / below).string() : std::string();
}

}  // namespace

std::string cache_folder() {
  const auto own = folder_in_environment("XDG_CACHE_HOME", "ddlbench");
  return own.empty() ? folder_in_environment("HOME", ".cache/ddlbench") : own;
}

BytePairs cached_byte_pairs(std::span<const std::string> texts, std::int64_t vocabulary, const std::string& folder) {
  if (folder.empty()) return learn_byte_pairs(texts, vocabulary);
  Hasher hasher;
  hasher.add(fmt::format("byte pairs {} {}\n", kVersion, vocabulary));
  for (const auto& text : texts) hasher.add(text).add("\n");
  const auto path = (fs::path(folder) / fmt::format("byte-pairs-{}.txt", hasher.digest())).string();
  try {
    auto known = parse_byte_pairs(read_file(path), path);
    if (known.vocabulary() <= vocabulary) return known;
  } catch (const Error&) {
    // Not there, not to be read, or damaged: all the same, since it can be made again.
  }
  auto learnt = learn_byte_pairs(texts, vocabulary);
  try {
    std::error_code ignored;
    fs::create_directories(folder, ignored);
    write_file(path, to_text(learnt));
  } catch (const Error&) {
    // Without a cache it is learnt each time.
  }
  return learnt;
}

}  // namespace ddl
