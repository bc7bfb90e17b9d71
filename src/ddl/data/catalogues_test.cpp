#include "ddl/data/catalogues.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "ddl/core/error.h"
#include "ddl/core/json.h"
#include "ddl/data/mo_testing.h"

namespace ddl {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;

using Pairs = std::vector<SentencePair>;

class Catalogues : public testing::Test {
 protected:
  ~Catalogues() override { fs::remove_all(root_); }

  std::string folder(const std::string& name) const { return (fs::path(root_) / name).string(); }
  void put(const std::string& place, const std::string& language, const std::string& domain,
           std::vector<std::pair<std::string, std::string>> messages) {
    const auto where = fs::path(root_) / place / language / "LC_MESSAGES";
    fs::create_directories(where);
    messages.emplace_back("", "Content-Type: text/plain; charset=UTF-8\n");
    write_file((where / (domain + ".mo")).string(), mo_bytes(std::move(messages)));
  }
  Pairs read(CatalogueSearch search) {
    if (search.folders.empty()) search.folders = {folder("a")};
    return read_catalogues(search).pairs;
  }

  std::string root_ = (fs::temp_directory_path() / ("ddl-catalogues-" + std::to_string(::getpid()))).string();
};

TEST_F(Catalogues, AreReadInTheOrderOfTheirDomains) {
  put("a", "de", "beta", {{"Open", "Öffnen"}, {"Close", "Schließen"}});
  put("a", "de", "alpha", {{"Quit", "Beenden"}, {"Open", "Aufmachen"}});
  fs::create_symlink("beta.mo", fs::path(folder("a")) / "de/LC_MESSAGES/aaa.mo");
  // Within a file in its order, which is the messages'. The first translation stays.
  EXPECT_EQ(read({}), (Pairs{{"Open", "Aufmachen"}, {"Quit", "Beenden"}, {"Close", "Schließen"}}));
  EXPECT_EQ(read({.domains = {"beta", "none", "alpha"}}),
            (Pairs{{"Close", "Schließen"}, {"Open", "Öffnen"}, {"Quit", "Beenden"}}));
  EXPECT_TRUE(read({.to = "fr"}).empty());
}

TEST_F(Catalogues, OfSeveralFoldersAreTakenFromTheFirst) {
  put("a", "de", "x", {{"Open", "Öffnen"}});
  put("b", "de", "x", {{"Open", "Aufmachen"}});
  put("b", "de", "y", {{"Quit", "Beenden"}});
  EXPECT_EQ(read({.folders = {folder("none"), folder("a"), folder("b")}}),
            (Pairs{{"Open", "Öffnen"}, {"Quit", "Beenden"}}));
}

TEST_F(Catalogues, GiveBothFormsOfPlurals) {
  put("a", "de", "x", {{"%d file\0%d files"s, "%d Datei\0%d Dateien"s}});
  put("a", "ja", "x", {{"%d file\0%d files"s, "ファイル %d"}});
  put("a", "pl", "x", {{"%d file\0%d files"s, "%d plik\0%d pliki\0%d plików"s}});
  EXPECT_EQ(read({}), (Pairs{{"%s file", "%s Datei"}, {"%s files", "%s Dateien"}}));
  EXPECT_EQ(read({.to = "ja"}), (Pairs{{"%s file", "ファイル %s"}, {"%s files", "ファイル %s"}}));
  EXPECT_EQ(read({.to = "pl"}), (Pairs{{"%s file", "%s plik"}}));
}

TEST_F(Catalogues, AreReadBackwardsAndJoinedOverEnglish) {
  put("a", "de", "x", {{"Open", "Öffnen"}, {"menu\4Close", "Schließen"}, {"Quit", "Beenden"}});
  put("a", "fr", "x", {{"Open", "Ouvrir"}, {"menu\4Close", "Fermer"}, {"Close", "Clore"}});
  EXPECT_EQ(read({.from = "de", .to = "en"}), (Pairs{{"Öffnen", "Open"}, {"Beenden", "Quit"}, {"Schließen", "Close"}}));
  EXPECT_EQ(read({.from = "de", .to = "fr"}), (Pairs{{"Öffnen", "Ouvrir"}, {"Schließen", "Fermer"}}));
}

TEST_F(Catalogues, NameTheFileThatIsDamaged) {
  put("a", "de", "x", {{"Open", "Öffnen"}});
  const auto path = folder("a") + "/de/LC_MESSAGES/x.mo";
  fs::resize_file(path, fs::file_size(path) - 1);
  try {
    read({});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::corrupt);
    EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
  }
}

TEST_F(Catalogues, RefuseWhatIsNoPairOfLanguages) {
  EXPECT_THROW(read({.to = "en"}), Error);
  EXPECT_THROW(read({.to = "../de"}), Error);
  EXPECT_THROW(read({.from = ""}), Error);
}

TEST(Corpus, IsWhatSetUpBrings) {
  std::string listed;
  for (const auto& part : corpus()) listed += part.package + " " + part.domain + "\n";
  const auto file = read_file(DDL_SOURCE_DIR "/tools/corpus.txt");
  EXPECT_EQ(file.substr(file.find('\n') + 1), listed);
}

TEST(Corpus, IsWhereItsPackagesPutIt) {
  const auto found = found_parts(corpus_folders(), "de");
  if (found.empty()) GTEST_SKIP() << "no message catalogues in German: make setup";
  CatalogueSearch search{corpus_folders(), {}};
  for (const auto& part : corpus()) search.domains.push_back(part.domain);
  const auto text = read_catalogues(search);
  EXPECT_EQ(text.files.size(), found.size());
  EXPECT_EQ(text.skipped, 0);
  EXPECT_GT(text.pairs.size(), 100 * found.size());
}

}  // namespace
}  // namespace ddl
