#include "ddl/report/escape.h"

#include <gtest/gtest.h>

namespace ddl {
namespace {

TEST(Html, EscapesMarkupAndQuotes) {
  EXPECT_EQ(html("</script><b a='\"'>&amp;"), "&lt;/script&gt;&lt;b a=&#39;&quot;&#39;&gt;&amp;amp;");
  EXPECT_EQ(html("2 workers · größer"), "2 workers · größer");
}

TEST(Html, ReplacesWhatIsNoText) {
  EXPECT_EQ(html(std::string("a\0b", 3)), "a\xEF\xBF\xBD" "b");
  EXPECT_EQ(html("a\xff" "b"), "a\xEF\xBF\xBD" "b");
}

TEST(ScriptJson, CannotEndItsScript) {
  const Json value = {{"</script>", "<!-- & -->"}};
  const auto text = script_json(value);
  EXPECT_EQ(text.find('<'), std::string::npos);
  EXPECT_EQ(text.find('>'), std::string::npos);
  EXPECT_EQ(Json::parse(text), value);
}

TEST(JsonText, ReplacesBytesThatAreNoText) { EXPECT_EQ(json_text("\xff"), "\"\xEF\xBF\xBD\""); }

}  // namespace
}  // namespace ddl
