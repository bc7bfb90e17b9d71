#include "ddl/report/predictions.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "ddl/report/plots.h"
#include "ddl/report/report.h"
#include "ddl/report/synthetic_records.h"

namespace ddl {
namespace {

Json predicted_record() {
  auto record = synthetic_record({.workers = 2});
  record["prediction"] = {{"step_ms", 12.1}, {"low", 11.0}, {"high", 13.2}, {"measured_ms", 12.6}, {"error_pct", -3.97}, {"reason", nullptr}};
  return record;
}

Json refused_record() {
  auto record = synthetic_record({.number = 1});
  record["prediction"] = {{"step_ms", nullptr}, {"low", nullptr}, {"high", nullptr}, {"measured_ms", nullptr}, {"error_pct", nullptr}, {"reason", "not measured"}};
  return record;
}

TEST(Predictions, StandBesideWhatWasMeasured) {
  const std::vector<Json> records{predicted_record(), refused_record()};
  const auto said = render_predictions(records);
  EXPECT_NE(said.find("predicted 12.1 ms (11.0 to 13.2), measured 12.6 ms: -4.0 %"), std::string::npos) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1);
  EXPECT_NE(render_table(records).find("-4.0 %"), std::string::npos);
}

TEST(Predictions, SayThatTheProfileWasMeasuredBesideOtherWork) {
  auto record = predicted_record();
  record["prediction"]["waited"] = 0.01;
  EXPECT_EQ(render_predictions({record}).find("others had the cores"), std::string::npos);
  record["prediction"]["waited"] = 0.12;
  EXPECT_NE(render_predictions({record}).find("others had the cores 12 % of the time"), std::string::npos);
}

TEST(Predictions, SayWhatLiesOutsideOfWhatWasMeasured) {
  auto record = predicted_record();
  record["prediction"]["beyond"] = {"messages of 3 ranks over <tcp> were not measured", "a larger update"};
  const auto said = render_predictions({record});
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 3);
  EXPECT_NE(said.find(": messages of 3 ranks over <tcp> were not measured\n"), std::string::npos) << said;
  EXPECT_NE(said.find(": a larger update\n"), std::string::npos) << said;
  EXPECT_NE(render_report({record}).find("messages of 3 ranks over &lt;tcp&gt; were not measured</li>"), std::string::npos);
}

TEST(Predictions, HaveAPlotAndASectionWhereThereIsOne) {
  const std::vector<Json> records{predicted_record(), refused_record()};
  const auto views = view_runs(records);
  const auto plot = prediction_plot(group_runs(views).front());
  ASSERT_TRUE(plot.present());
  const auto& values = plot.specification["data"]["values"];
  ASSERT_EQ(values.size(), 1u);
  EXPECT_EQ(values[0]["predicted"], 12.1);
  EXPECT_EQ(values[0]["measured"], 12.6);
  EXPECT_NE(render_report(records).find("<section id=\"prediction\""), std::string::npos);
}

TEST(Predictions, LeaveNoTraceWithoutAny) {
  const std::vector<Json> records{refused_record(), synthetic_record({.number = 2})};
  EXPECT_EQ(render_predictions(records), "");
  const auto views = view_runs(records);
  EXPECT_FALSE(prediction_plot(group_runs(views).front()).present());
  EXPECT_EQ(render_report(records).find("<section id=\"prediction\""), std::string::npos);
}

}  // namespace
}  // namespace ddl
