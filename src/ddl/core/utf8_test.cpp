#include "ddl/core/utf8.h"

#include <gtest/gtest.h>

namespace ddl {
namespace {

constexpr const char* kBad = "\xef\xbf\xbd";

std::string encoded(std::uint32_t point) {
  const auto byte = [](std::uint32_t value) { return static_cast<char>(static_cast<std::uint8_t>(value)); };
  if (point < 0x80) return {byte(point)};
  if (point < 0x800) return {byte(0xc0 | point >> 6), byte(0x80 | (point & 63))};
  if (point < 0x10000) return {byte(0xe0 | point >> 12), byte(0x80 | (point >> 6 & 63)), byte(0x80 | (point & 63))};
  return {byte(0xf0 | point >> 18), byte(0x80 | (point >> 12 & 63)), byte(0x80 | (point >> 6 & 63)),
          byte(0x80 | (point & 63))};
}

TEST(Utf8, TakesEveryCodePointAndNoSurrogate) {
  for (std::uint32_t point = 0; point < 0x110000; ++point) {
    const auto text = encoded(point);
    const bool surrogate = point >= 0xd800 && point < 0xe000;
    ASSERT_EQ(utf8_length(text), surrogate ? 0 : text.size()) << point;
    for (std::size_t cut = 1; cut < text.size(); ++cut) ASSERT_FALSE(is_utf8(text.substr(0, cut))) << point;
  }
}

TEST(Utf8, RefusesWhatIsNoSequence) {
  for (const char* text : {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf",
                           "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xc3(", "\xe2\x82("})
    EXPECT_FALSE(is_utf8(text)) << text;
  EXPECT_EQ(to_utf8("a\xff\xc3z"), std::string("a") + kBad + kBad + "z");
  EXPECT_EQ(to_utf8("Grüße\xe2\x82"), std::string("Grüße") + kBad + kBad);
  EXPECT_EQ(to_utf8("日本 €𝄞"), "日本 €𝄞");
  EXPECT_TRUE(is_utf8(""));
}

TEST(Utf8, NormalisesWhiteSpace) {
  EXPECT_EQ(normalised_text("  a \t\r\n b  c\n"), "a b c");
  EXPECT_EQ(normalised_text(" \v\f "), "");
  EXPECT_EQ(normalised_text("a\xc2\xa0"), "a\xc2\xa0");  // a no-break space is no white space of ASCII's
}

}  // namespace
}  // namespace ddl
