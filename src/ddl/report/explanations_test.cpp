#include "ddl/report/explanations.h"

#include <gtest/gtest.h>

#include <map>

#include "ddl/report/report.h"
#include "ddl/report/synthetic_records.h"

namespace ddl {
namespace {

/// What explain could have said of a record of two workers.
Json explanation(const Json& record) {
  const auto cause = [](const char* name, const char* words, double lost, double step, double speedup) {
    return Json{{"cause", name}, {"words", words}, {"lost", lost}, {"without", {{"step_ms", step}, {"gain_ms", 4.2 - step}, {"speedup", speedup}}}};
  };
  Json measured = Json::object(), predicted = Json::object();
  for (std::size_t c = 0; c < kCauses; ++c) {
    measured[std::string(name(static_cast<Cause>(c)))] = 0.4;
    predicted[std::string(name(static_cast<Cause>(c)))] = c == 0 ? 0.9 : 0.4;
  }
  return {{"schema", "ddlbench.explain/1"},
          {"run", record.at("id")},
          {"words", "2 workers reach 1.60x: 0.35x is lost to bytes & such."},
          {"ledger_ms", measured},
          {"loss", {{"workers", 2}, {"speedup", 1.6}, {"not_explained", 0.1}, {"causes", {cause("fabric", "bytes on their way between workers", 0.35, 3.8, 1.8), cause("compute", "computing in parts", -0.05, 4.3, 1.55)}}}},
          {"prediction", {{"step_ms", 4.5}, {"low", 4.0}, {"high", 5.0}, {"ledger_ms", predicted}, {"measured_ms", 4.0}, {"measured_ledger_ms", measured}}}};
}

struct Made {
  std::vector<Json> records;
  std::vector<Json> documents;
};

Made made() {
  Made out{synthetic_study(), {}};
  for (const auto& record : out.records)
    if (record.at("ranks").size() == 2) out.documents.push_back(explanation(record));
  return out;
}

TEST(Explanations, PartsOfABarSumToTheWorkers) {
  const auto [records, documents] = made();
  const auto views = view_runs(records);
  const auto groups = group_runs(views);
  const auto plot = why_plot(groups.front(), documents);
  ASSERT_TRUE(plot.present());
  std::map<std::string, double> sums;
  for (const auto& value : plot.specification.at("layer")[0].at("data").at("values")) sums[value.at("bar")] += value.at("times").get<double>();
  ASSERT_EQ(sums.size(), 2U) << "of one worker there is no bar";
  for (const auto& [bar, sum] : sums) EXPECT_NEAR(sum, 2, 1e-3) << bar;
  EXPECT_NE(plot.description.find("1.60x of 2.00x reached"), std::string::npos) << plot.description;
  const auto& colours = plot.specification.at("layer")[0].at("encoding").at("color").at("scale");
  EXPECT_EQ(colours.at("domain"), (Json{"reached", "fabric", "compute", "not explained"}));
  EXPECT_EQ(colours.at("domain").size(), colours.at("range").size());
}

TEST(Explanations, ThePageSaysWhyInWordsAndFigures) {
  const auto [records, documents] = made();
  const auto page = render_report(records, Batches::apart, documents, "3 of 9 runs are not explained here.");
  EXPECT_NE(page.find("<section id=\"why\""), std::string::npos);
  EXPECT_NE(page.find("<a href=\"#why\">Why not faster</a>"), std::string::npos);
  EXPECT_NE(page.find("0.35x is lost to bytes &amp; such."), std::string::npos);
  EXPECT_NE(page.find("lenet: why not faster"), std::string::npos);
  EXPECT_NE(page.find("<th scope=\"row\">sum: the workers</th><td class=\"number\">2.00x</td>"), std::string::npos);
  EXPECT_NE(page.find("<th scope=\"row\">compute: computing in parts</th><td class=\"number\">-0.05x</td>"), std::string::npos);
  EXPECT_NE(page.find("<td class=\"number\">+0.5</td>"), std::string::npos) << "predicted beside measured";
  EXPECT_NE(page.find("3 of 9 runs are not explained here."), std::string::npos);
}

TEST(Explanations, WithoutAnyThereIsNoSuchPart) {
  const auto [records, documents] = made();
  EXPECT_EQ(render_report(records).find("<section id=\"why\""), std::string::npos);
  EXPECT_EQ(render_report(records, Batches::apart, std::vector<Json>{Json{{"run", "another"}, {"words", "x"}}}).find("<section id=\"why\""), std::string::npos);
}

TEST(Explanations, NothingThatIsMissingThrows) {
  const auto [records, documents] = made();
  for (const auto& [key, value] : documents.front().items())
    for (const Json& instead : {Json(), Json(3), Json("<script>x"), Json::array(), Json::object()}) {
      auto document = documents.front();
      document[key] = instead;
      std::string page;
      EXPECT_NO_THROW(page = render_report(records, Batches::apart, std::vector<Json>{document})) << key << " = " << instead;
      EXPECT_EQ(page.find("<script>x"), std::string::npos);
    }
}

}  // namespace
}  // namespace ddl
