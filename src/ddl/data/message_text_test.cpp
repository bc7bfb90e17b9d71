#include "ddl/data/message_text.h"

#include <gtest/gtest.h>

#include "ddl/core/random.h"

namespace ddl {
namespace {

/// The one pair, as `source -> target`; "-" where there is none.
std::string pair(std::string_view source, std::string_view target) {
  const auto pairs = sentence_pairs(source, target);
  if (pairs.size() > 1) return "several";
  return pairs.empty() ? "-" : pairs[0].source + " -> " + pairs[0].target;
}

TEST(MessageText, IsNormalised) {
  EXPECT_EQ(pair("cannot open\n  the file\n", "Datei kann nicht\tgeöffnet werden\n"),
            "cannot open the file -> Datei kann nicht geöffnet werden");
}

TEST(MessageText, ComesInParagraphsWhereBothHaveTheSameNumber) {
  const std::vector<SentencePair> two{{"one line", "eine Zeile"}, {"two", "zwei"}};
  EXPECT_EQ(sentence_pairs("one\nline\n\ntwo\n", "eine\nZeile\n \n\nzwei"), two);
  EXPECT_EQ(pair("one\n\ntwo", "eins zwei"), "one two -> eins zwei");
  // One of three is untranslated: the others stay.
  EXPECT_EQ(sentence_pairs("one line\n\nGPL\n\ntwo", "eine Zeile\n\nGPL\n\nzwei"), two);
}

TEST(MessageText, LosesTheMarksOfAccessKeys) {
  EXPECT_EQ(pair("_Open", "Ö_ffnen"), "Open -> Öffnen");
  EXPECT_EQ(pair("Save _As…", "Speichern _unter …"), "Save As… -> Speichern unter …");
  EXPECT_EQ(pair("&File", "&Datei"), "File -> Datei");
  EXPECT_EQ(pair("_File", "ファイル(_F)"), "File -> ファイル");
  EXPECT_EQ(pair("set file_name", "file_name setzen"), "set file_name -> file_name setzen");
  EXPECT_EQ(pair("a_b and c_d", "a_b und c_d"), "a_b and c_d -> a_b und c_d");
  EXPECT_EQ(pair("R & D", "F & E"), "R & D -> F & E");
  EXPECT_EQ(pair("a &lt; b now", "a &lt; b jetzt"), "a &lt; b now -> a &lt; b jetzt");
}

TEST(MessageText, HasOneFormOfDirective) {
  EXPECT_EQ(pair("%d of %-5.2lf", "%1$d von %2$'.3f"), "%s of %s -> %s von %s");
  EXPECT_EQ(pair("file %(name)s", "Datei %(name)s"), "file %s -> Datei %s");
  EXPECT_EQ(pair("%qE is not %<const%>", "%qE ist nicht %<const%>"), "%s is not 'const' -> %s ist nicht 'const'");
  EXPECT_EQ(pair("100%% done", "zu 100 %% fertig"), "100% done -> zu 100 % fertig");
  EXPECT_EQ(pair("50 % of it", "50 % davon"), "50 % of it -> 50 % davon");
  EXPECT_EQ(pair("%ld bytes %zu", "%ld Bytes, %zu"), "%s bytes %s -> %s Bytes, %s");
  EXPECT_EQ(pair("%s is a file", "ist eine Datei"), "-");
  EXPECT_EQ(pair("ends in %", "endet auf %"), "ends in % -> endet auf %");
}

TEST(MessageText, LeavesOutWhatTeachesNothing) {
  EXPECT_EQ(pair("Linux", "Linux"), "-");
  EXPECT_EQ(pair("_Name", "Name"), "_Name -> Name");
  EXPECT_EQ(pair("42 !", "42!"), "-");
  EXPECT_EQ(pair("", "x"), "-");
  EXPECT_EQ(pair("x", ""), "-");
  EXPECT_EQ(pair("yes", "ein sehr langer Satz, der etwas anderes sagt"), "-");
  EXPECT_EQ(pair("a\x01z", "b\x01z"), "-");
  EXPECT_EQ(pair("key|Home", "Pos1"), "-");
  EXPECT_EQ(pair("translator-credits", "Jemand <jemand@example.org>"), "-");
  EXPECT_EQ(pair(std::string(kLongestSentence + 1, 'a'), std::string(kLongestSentence, 'b')), "-");
}

TEST(MessageText, TakesAnything) {
  Random random(6);
  const std::string_view some = "%%%(_&)\n\n ab1$.*|;\xc3\xa4<>lq";
  for (int round = 0; round < 20'000; ++round) {
    std::string texts[2];
    for (auto& text : texts)
      for (std::uint64_t i = random.below(24); i > 0; --i) text += some[random.below(some.size())];
    for (const auto& [source, target] : sentence_pairs(texts[0], texts[1])) {
      ASSERT_FALSE(source.empty() || target.empty());
      ASSERT_NE(source, target);
      ASSERT_EQ(source.find('\n'), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace ddl
