#include <gtest/gtest.h>

#include "ddl/report/report.h"
#include "ddl/report/resources.h"
#include "ddl/report/synthetic_records.h"

namespace ddl {
namespace {

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t times = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size()) ++times;
  return times;
}

TEST(Page, HasItsPartsAndItsLicences) {
  const auto page = render_report(synthetic_study());
  for (const auto* id : {"results", "scaling", "time", "learning", "steps", "environment", "configuration", "data"})
    EXPECT_EQ(count(page, "<section id=\"" + std::string(id) + "\""), 1u) << id;
  EXPECT_EQ(count(page, "<tr class=\"run"), 6u);
  EXPECT_NE(page.find("Copyright 2015 Interactive Data Lab"), std::string::npos);
  EXPECT_NE(page.find("Two workers over shm train lenet 1.5"), std::string::npos);
  EXPECT_NE(page.find("studies/first.yaml:12:5"), std::string::npos) << "provenance";
}

TEST(Page, AsksForNothingFromElsewhere) {
  const auto page = render_report(synthetic_study());
  const auto own = page.size() - resources().vega_js.size();
  EXPECT_EQ(page.find("src=\"http"), std::string::npos);
  EXPECT_EQ(page.find("sourceMappingURL"), std::string::npos);
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
  EXPECT_LT(own, 3'000'000u);
}

TEST(Page, StaysSmallWithLongSeries) {
  EXPECT_LT(render_report(synthetic_study(9000)).size() - resources().vega_js.size(), 3'000'000u);
}

TEST(Page, EscapesWhatRecordsSay) {
  const std::string evil = "</script><script>window.injected=1</script>\"'<img src=x onerror=alert(1)>";
  auto records = synthetic_study();
  for (auto& record : records) {
    for (const auto* key : {"case", "study", "reason", "subject", "id", "state", "started"}) record[key] = evil + key;
    for (const auto* key : {"model", "dataset", "transport", "batch"}) record["config"][key] = evil;
    record["config"][evil] = evil;
    record["provenance"][evil] = evil;
    record["environment"]["before"]["host"] = evil;
    record["environment"]["drift"] = {evil};
    record["messages"] = {evil, "\xff\xfe"};
    record["build"]["version"] = evil;
    record["ranks"][0]["device"] = evil;
  }
  const auto page = render_report(records);
  EXPECT_EQ(count(page, "window.injected=1</script>"), 0u);
  // The bundle's own text holds some markup too, so a harmless page is the measure.
  const auto harmless = render_report(synthetic_study());
  for (const auto* mark : {"<img", "<script", "</script", "onerror=alert(1)>"})
    EXPECT_EQ(count(page, mark), count(harmless, mark)) << mark;
}

TEST(Page, NeverThrowsOverMissingFields) {
  EXPECT_NO_THROW(render_report({}));
  EXPECT_NO_THROW(render_report({Json::object(), Json(), {{"state", "planned"}}}));
  const Json whole = synthetic_record({.workers = 2});
  for (const auto& [key, value] : whole.items())
    for (const Json& instead : {Json(), Json(3), Json("x"), Json::array(), Json::object()}) {
      Json record = whole;
      record[key] = instead;
      EXPECT_NO_THROW(render_report({record})) << key << " = " << instead;
      EXPECT_NO_THROW(render_table({record})) << key;
      EXPECT_NO_THROW(render_where_time_went({record})) << key;
    }
}

TEST(Page, SetsUnequalBatchesApart) {
  std::vector<Json> records = synthetic_study();
  for (const int workers : {1, 2}) records.push_back(synthetic_record({.workers = workers, .number = 20 + workers, .batch = 128}));
  const auto page = render_report(records);
  EXPECT_EQ(count(page, "<tr class=\"heading\""), 2 * 3u) << "of the results, and of the ledger";
  EXPECT_EQ(count(page, "Global batches differ"), 1u);
  EXPECT_EQ(count(page, "<tr class=\"run"), 8u);
  EXPECT_NE(page.find("lenet on fashion-mnist, batch 128: throughput against workers"), std::string::npos);
  const auto together = render_report(records, Batches::together);
  EXPECT_EQ(count(together, "<tr class=\"heading\""), 0u);
  EXPECT_EQ(count(together, "as was asked for"), 1u);
  EXPECT_NE(together.find("data over shm, batch 128"), std::string::npos);
}

TEST(Page, ShowsFailuresAndPeers) {
  auto records = synthetic_study();
  records[2] = failed_record({.workers = 2, .transport = "tcp", .number = 2}, "rank 1 ended by signal 9");
  records.push_back(synthetic_record({.subject = "torch-ddp", .number = 7}));
  const auto page = render_report(records);
  EXPECT_NE(page.find("rank 1 ended by signal 9"), std::string::npos);
  EXPECT_NE(page.find("lenet, 1 worker, torch-ddp"), std::string::npos);
  EXPECT_NE(page.find("Of 7 runs, one failed."), std::string::npos);
}

}  // namespace
}  // namespace ddl
