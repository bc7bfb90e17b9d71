#include "ddl/report/staleness.h"

#include <gtest/gtest.h>

#include "ddl/report/report.h"
#include "ddl/report/synthetic_records.h"

namespace ddl {
namespace {

Json served(int servers) {
  auto record = synthetic_record({.workers = 3, .strategy = "parameter-server[async]"});
  for (int server = 0; server < 3; ++server)
    record["ranks"][static_cast<std::size_t>(server)]["staleness"] =
        server < servers ? Json{{"updates", 40}, {"by_steps", Json::array({{0, 30}, {1, 10}})}, {"by_updates", Json::array({{0, 20}, {2, 10}, {4, 5}, {7, 5}})}} : Json(nullptr);
  return record;
}

TEST(Staleness, OfAllServersTogetherIsSaid) {
  const std::vector<Json> records{served(2)};
  const auto views = view_runs(records);
  const auto found = staleness_of(views.front());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->by_updates, (Staleness::Counts{{0, 40}, {2, 20}, {4, 10}, {7, 10}}));
  EXPECT_EQ(found->by_steps, (Staleness::Counts{{0, 60}, {1, 20}}));
  EXPECT_EQ(staleness_sentence(views.front(), *found),
            views.front().label + ": of 80 gradients that 2 servers of parameters applied as they came, there lay between the parameters and the gradient 0 updates by others for 50.0 %, 2 for 25.0 %, "
            "4 to 7 for 25.0 % (mean 1.88, at most 7); the slowest worker was behind by 0 steps for 75.0 %, 1 for 25.0 % (mean 0.25, at most 1).");
  EXPECT_NE(render_staleness(records).find("4 to 7 for 25.0 %"), std::string::npos);
  const auto page = render_report(records);
  EXPECT_NE(page.find("id=\"staleness\""), std::string::npos);
  EXPECT_NE(page.find("4 to 7 for 25.0 %"), std::string::npos);
}

TEST(Staleness, RangesDouble) {
  const auto shares = shares_of({{0, 1}, {3, 1}, {4, 1}, {8, 1}, {15, 1}, {100, 5}});
  std::vector<std::string> words;
  for (const auto& range : shares) words.push_back(in_words(range));
  EXPECT_EQ(words, (std::vector<std::string>{"0", "3", "4 to 7", "8 to 15", "64 to 127"}));
  EXPECT_DOUBLE_EQ(shares.back().share, 0.5);
}

// Of strategies without servers, of servers that add gradients up, of records from before, and of others' mistakes there is nothing to say.
TEST(Staleness, IsNotSaidWhereThereIsNone) {
  auto sums = served(2), broken = served(2), old = served(2);
  for (int server : {0, 1}) {
    sums["ranks"][static_cast<std::size_t>(server)]["staleness"] = {{"updates", 40}, {"by_steps", Json::array()}, {"by_updates", Json::array()}};
    broken["ranks"][static_cast<std::size_t>(server)]["staleness"] = {{"by_steps", "many"}, {"by_updates", Json::array({Json::array({"x", 1}), 3})}};
    old["ranks"][static_cast<std::size_t>(server)]["staleness"] = {{"updates", 40}, {"mean_steps", 1.5}};
  }
  for (const auto& record : {synthetic_record({}), served(0), sums, broken, old, Json::object(), Json{{"ranks", {1, "two"}}}}) {
    EXPECT_EQ(render_staleness({record}), "");
    EXPECT_EQ(render_report({record}).find("id=\"staleness\""), std::string::npos);
  }
}

}  // namespace
}  // namespace ddl
