#include "ddl/data/catalogues.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "ddl/core/error.h"
#include "ddl/data/mo_file.h"

namespace ddl {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnglish = "en";

void require_language(const std::string& name) {
  const bool word = !name.empty() && name.size() <= 32 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '@' || c == '-';
  });
  if (!word)
    throw Error(Code::invalid_argument,
                fmt::format("[translation] no language; got '{}', expected a name as de or pt_BR", name));
}

std::string place_of(const std::vector<std::string>& folders, const std::string& language, const std::string& domain) {
  for (const auto& folder : folders) {
    std::error_code ignored;
    const auto path = fs::path(folder) / language / "LC_MESSAGES" / (domain + ".mo");
    if (fs::is_regular_file(path, ignored)) return path.string();
  }
  return {};
}

std::vector<std::string> all_domains(const std::vector<std::string>& folders, const std::string& language) {
  std::set<std::string> domains;
  for (const auto& folder : folders) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(fs::path(folder) / language / "LC_MESSAGES", ignored)) {
      // iso_639.mo is iso_639-2.mo by another name.
      if (entry.path().extension() == ".mo" && entry.is_regular_file(ignored) && !entry.is_symlink(ignored))
        domains.insert(entry.path().stem().string());
    }
  }
  return {domains.begin(), domains.end()};
}

/// English messages with their translation, once per context and form, in the catalogue's order.
struct Translated {
  std::string key;  ///< context, English and form: what other languages' catalogues have alike
  std::string english, text;
};

std::vector<Translated> translated(const Catalogue& catalogue) {
  std::vector<Translated> all;
  for (const auto& message : catalogue.messages) {
    const auto key = message.context + '\4' + message.id;
    all.push_back({key, message.id, message.texts.front()});
    if (!message.plural.empty() && message.texts.size() <= 2)
      all.push_back({key + '\0' + message.plural, message.plural, message.texts.back()});
  }
  return all;
}

class Reader {
 public:
  explicit Reader(const CatalogueSearch& search) : search_(search) {}

  ParallelText read() {
    const auto& language = search_.to == kEnglish ? search_.from : search_.to;
    for (const auto& domain : search_.domains.empty() ? all_domains(search_.folders, language) : search_.domains) {
      if (search_.from == kEnglish || search_.to == kEnglish) {
        for (const auto& one : messages(domain, language))
          search_.from == kEnglish ? add(one.english, one.text) : add(one.text, one.english);
        continue;
      }
      std::unordered_map<std::string, std::string> targets;
      for (auto& one : messages(domain, search_.to)) targets.emplace(std::move(one.key), std::move(one.text));
      if (targets.empty()) continue;
      for (const auto& one : messages(domain, search_.from))
        if (const auto found = targets.find(one.key); found != targets.end()) add(one.text, found->second);
    }
    return std::move(result_);
  }

 private:
  std::vector<Translated> messages(const std::string& domain, const std::string& language) {
    const auto path = place_of(search_.folders, language, domain);
    if (path.empty()) return {};
    const auto catalogue = read_mo(path);
    result_.files.push_back(path);
    result_.skipped += catalogue.skipped;
    return translated(catalogue);
  }

  void add(const std::string& source, const std::string& target) {
    for (auto& pair : sentence_pairs(source, target))
      if (seen_.insert(pair.source).second) result_.pairs.push_back(std::move(pair));
  }

  const CatalogueSearch& search_;
  ParallelText result_;
  std::unordered_set<std::string> seen_;
};

}  // namespace

ParallelText read_catalogues(const CatalogueSearch& search) {
  require_language(search.from);
  require_language(search.to);
  if (search.from == search.to)
    throw Error(Code::invalid_argument,
                fmt::format("[translation] from and to; got {} twice, expected two languages", search.from));
  return Reader(search).read();
}

const std::vector<CorpusPart>& corpus() {
  static const std::vector<CorpusPart> parts{
      {"git", "git"},
      {"gcc-12-locales", "gcc-12"},
      {"gcc-12-locales", "cpplib-12"},
      {"util-linux-locales", "util-linux"},
      {"coreutils", "coreutils"},
      {"gnupg-l10n", "gnupg2"},
      {"dpkg", "dpkg"},
      {"bash", "bash"},
      {"tar", "tar"},
      {"findutils", "findutils"},
      {"binutils-common", "opcodes"},
      {"binutils-common", "ld"},
      {"binutils-common", "gprof"},
      {"libglib2.0-data", "glib20"},
      {"libgtk-3-common", "gtk30-properties"},
      {"libgtk-3-common", "gtk30"},
      {"gnumeric-common", "gnumeric-1.12.55"},
      {"xkb-data", "xkeyboard-config"},
      {"iso-codes", "iso_3166-1"},
      {"iso-codes", "iso_3166-2"},
      {"iso-codes", "iso_3166-3"},
      {"iso-codes", "iso_4217"},
      {"iso-codes", "iso_639-2"},
      {"iso-codes", "iso_639-3"},
      {"iso-codes", "iso_639-5"},
      {"iso-codes", "iso_15924"},
  };
  return parts;
}

std::vector<std::string> corpus_folders() { return {"/usr/share/locale", DDL_LOCALE_FOLDER}; }

std::vector<CorpusPart> found_parts(const std::vector<std::string>& folders, const std::string& language) {
  std::vector<CorpusPart> found;
  for (const auto& part : corpus())
    if (!place_of(folders, language, part.domain).empty()) found.push_back(part);
  return found;
}

}  // namespace ddl
