#include "ddl/data/text_corpus.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "ddl/core/error.h"
#include "ddl/core/hash.h"
#include "ddl/core/text.h"
#include "ddl/data/catalogues.h"
#include "ddl/data/options.h"

namespace ddl {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kOneInTest = 20;

/// The folder that takes the place of the system's; empty where none does.
std::string own_folder(const std::string& name, const DatasetOptions& options) {
  if (!options.folder.empty()) return options.folder;
  const auto places = data_places(name, options, {});
  std::error_code ignored;
  return !places.empty() && fs::is_directory(places.front(), ignored) ? places.front() : std::string();
}

std::string how_to_get_them() {
  std::vector<std::string> packages;
  for (const auto& part : corpus())
    if (packages.empty() || packages.back() != part.package) packages.push_back(part.package);
  return fmt::format("Debian has them, and `make setup` brings them: apt-get install {}", join(packages, " "));
}

}  // namespace

bool is_test_sentence(const std::string& source) {
  std::string letters;
  for (const char c : source) {
    if (c >= 'A' && c <= 'Z')
      letters += static_cast<char>(c - 'A' + 'a');
    else if ((c >= 'a' && c <= 'z') || static_cast<std::uint8_t>(c) >= 0x80)
      letters += c;
  }
  const auto hash = digest(letters);
  std::uint32_t value = 0;
  std::from_chars(hash.data(), hash.data() + 8, value, 16);
  return value % kOneInTest == 0;
}

TextCorpus read_text_corpus(const std::string& name, const DatasetOptions& options, const std::string& from,
                            const std::string& to) {
  CatalogueSearch search{corpus_folders(), {}, from, to};
  const auto own = own_folder(name, options);
  if (own.empty())
    for (const auto& part : corpus()) search.domains.push_back(part.domain);
  else
    search.folders = {own};
  auto text = read_catalogues(search);
  TextCorpus parts;
  for (auto& pair : text.pairs) (is_test_sentence(pair.source) ? parts.test : parts.train).push_back(std::move(pair));
  if (parts.train.empty() || parts.test.empty())
    throw Error(Code::not_found, fmt::format("[dataset] {}: too few translated messages from {} to {}; got {} in {} "
                                             "catalogues, expected some for training and some for "
                                             "test; looked in: {}; {}, or use --synthetic",
                                             name, from, to, parts.train.size() + parts.test.size(), text.files.size(),
                                             join(search.folders, ", "), how_to_get_them()));
  return parts;
}

std::string missing_text_corpus(const std::string& name, const DatasetOptions& options, const std::string& language) {
  const auto own = own_folder(name, options);
  if (!own.empty()) return {};
  if (!found_parts(corpus_folders(), language).empty()) return {};
  return fmt::format("no message catalogues of '{}' in {}; {}", language, join(corpus_folders(), ", "),
                     how_to_get_them());
}

}  // namespace ddl
