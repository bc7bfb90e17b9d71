#include "ddl/data/mo_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "ddl/core/error.h"
#include "ddl/core/random.h"
#include "ddl/core/utf8.h"
#include "ddl/data/mo_testing.h"

namespace ddl {
namespace {

using namespace std::string_literals;

const std::string kUtf8 = "Project-Id-Version: x\nContent-Type: text/plain; charset=UTF-8\nPlural-Forms: nplurals=2;\n";

const std::vector<std::pair<std::string, std::string>> kMessages{{"", kUtf8},
                                                                 {"Open", "Öffnen"},
                                                                 {"menu\4Close", "Schließen"},
                                                                 {"%d file\0%d files"s, "%d Datei\0%d Dateien"s},
                                                                 {"Quit", ""}};

TEST(MoFile, IsReadInBothByteOrders) {
  for (const bool big : {false, true}) {
    const auto catalogue = parse_mo(mo_bytes(kMessages, big), "x");
    EXPECT_EQ(catalogue.header, kUtf8);
    EXPECT_EQ(catalogue.charset, "UTF-8");
    EXPECT_EQ(catalogue.skipped, 0);
    const std::vector<CatalogueEntry> expected{{"", "%d file", "%d files", {"%d Datei", "%d Dateien"}},
                                        {"", "Open", "", {"Öffnen"}},
                                        {"", "Quit", "", {""}},
                                        {"menu", "Close", "", {"Schließen"}}};
    EXPECT_EQ(catalogue.messages, expected);
  }
  EXPECT_TRUE(parse_mo(mo_bytes({}), "x").messages.empty());
}

TEST(MoFile, IsConvertedFromItsCharset) {
  const auto read = [](const std::string& charset) {
    return parse_mo(mo_bytes({{"", "Content-Type: text/plain; charset=" + charset + "\n"},
                              {"Open",
                               "\xd6"
                               "ffnen"},
                              {"File", "Datei"}}),
                    "x");
  };
  for (const auto* charset : {"ISO-8859-1", "iso-8859-15", "WINDOWS-1252"}) {
    const auto catalogue = read(charset);
    EXPECT_EQ(catalogue.skipped, 0) << charset;
    ASSERT_EQ(catalogue.messages.size(), 2U) << charset;
    EXPECT_EQ(catalogue.messages[1].texts[0], "Öffnen") << charset;
  }
  for (const auto* charset : {"UTF-8", "", "CHARSET"}) EXPECT_EQ(read(charset).skipped, 1) << charset;
  // Unknown charsets, and what iconv would take for more than a name.
  for (const auto* charset : {"KLINGON", "ISO-8859-1//IGNORE", "UTF-16"}) {
    const auto catalogue = read(charset);
    EXPECT_EQ(catalogue.skipped + static_cast<std::int64_t>(catalogue.messages.size()), 2) << charset;
    EXPECT_TRUE(catalogue.skipped == 2 || std::string_view(charset) == "UTF-16") << charset;
  }
}

void expect_corrupt(const std::string& bytes, const std::string& what) {
  try {
    parse_mo(bytes, "x");
    FAIL() << what;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::corrupt);
    EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
  }
}

TEST(MoFile, SaysWhereItIsCorrupt) {
  const auto good = mo_bytes(kMessages);
  expect_corrupt("", "[mo] x: truncated header at byte 0; got 0 bytes");
  expect_corrupt("x" + good, "wrong magic at byte 0");
  const auto with = [&](std::size_t at, std::string bytes) {
    return std::string(good).replace(at, bytes.size(), bytes);
  };
  expect_corrupt(with(8, "\xff\xff\xff\xff"), "a table beyond the file at byte 12; got 4294967295 entries");
  expect_corrupt(with(16, "\xf0\xff\xff\xff"), "a table beyond the file at byte 16");
  expect_corrupt(with(28 + 8, "\xff\xff\xff\xff"), "a text beyond the file at byte 36");
  expect_corrupt(with(28 + 12, "\xff\xff\xff\xff"), "a text beyond the file at byte 36");
  expect_corrupt(with(good.size() - 1, "x"), fmt::format("a text without its end at byte {}", good.size() - 1));
  // Every entry of a table the same long text.
  std::vector<std::pair<std::string, std::string>> many{{"", kUtf8}};
  for (int i = 0; i < 50; ++i) many.emplace_back(fmt::format("{:03}", i), "y");
  many.back().second = std::string(500, 'z');
  auto shared = mo_bytes(many);
  const std::size_t texts = 28 + 8 * many.size();
  for (std::size_t i = 0; i + 1 < many.size(); ++i)
    shared.replace(texts + 8 * i, 8, shared.substr(texts + 8 * (many.size() - 1), 8));
  expect_corrupt(shared, "texts longer than the file");
  try {
    parse_mo(with(4, std::string("\0\0\2\0", 4)), "x");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::unsupported);
  }
}

/// No crash, no hang, nothing that is not UTF-8: whatever the bytes.
void survive(const std::string& bytes) {
  try {
    const auto catalogue = parse_mo(bytes, "x");
    for (const auto& message : catalogue.messages) {
      ASSERT_TRUE(is_utf8(message.context) && is_utf8(message.id) && is_utf8(message.plural));
      ASSERT_FALSE(message.texts.empty());
      for (const auto& text : message.texts) ASSERT_TRUE(is_utf8(text));
    }
  } catch (const Error& error) {
    ASSERT_TRUE(error.code() == Code::corrupt || error.code() == Code::unsupported) << error.what();
  }
}

TEST(MoFile, SurvivesEveryTruncationAndFlip) {
  const auto good = mo_bytes(kMessages);
  for (std::size_t length = 0; length < good.size(); ++length) {
    survive(good.substr(0, length));
    if (length > 0 && length < good.size()) expect_corrupt(good.substr(0, length), "[mo] x: ");
  }
  for (std::size_t i = 0; i < good.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      auto bytes = good;
      bytes[i] = static_cast<char>(static_cast<std::uint8_t>(bytes[i]) ^ (1U << bit));
      survive(bytes);
    }
  Random random(5);
  for (int round = 0; round < 5000; ++round) {
    auto bytes = good;
    for (std::uint64_t i = 0; i <= random.below(8); ++i)
      bytes[random.below(bytes.size())] = static_cast<char>(random.below(256));
    survive(bytes);
  }
}

TEST(MoFile, ReadsWhateverCataloguesAreHere) {
  std::error_code ignored;
  std::int64_t files = 0, messages = 0;
  for (const auto* language : {"de", "fr", "ja", "ru"})
    for (const auto& entry :
         std::filesystem::directory_iterator(fmt::format("/usr/share/locale/{}/LC_MESSAGES", language), ignored)) {
      if (entry.path().extension() != ".mo" || !entry.is_regular_file(ignored)) continue;
      const auto catalogue = read_mo(entry.path().string());
      EXPECT_EQ(catalogue.skipped, 0) << entry.path();
      messages += static_cast<std::int64_t>(catalogue.messages.size());
      ++files;
    }
  if (files == 0) GTEST_SKIP() << "no message catalogues under /usr/share/locale";
  EXPECT_GT(messages, files);
}

}  // namespace
}  // namespace ddl
