#include "ddl/report/plots.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "ddl/report/plot_data.h"
#include "ddl/report/synthetic_records.h"

namespace ddl {
namespace {

struct Study {
  explicit Study(std::vector<Json> made) : records(std::move(made)), views(view_runs(records)) {
    compare(views);
    groups = group_runs(views);
  }
  std::vector<Json> records;
  std::vector<RunView> views;
  std::vector<RunGroup> groups;
};

constexpr auto kAllPlots = {scaling_plot,  ledger_plot,      loss_plot,
                            accuracy_plot, step_series_plot, step_distribution_plot};

TEST(Thin, KeepsShortSeriesAndBoundsLongOnes) {
  EXPECT_EQ(thin({1, 2, 3}, 10).size(), 3u);
  std::vector<double> values(9001);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  const auto buckets = thin(values, 240, 3);
  EXPECT_LE(buckets.size(), 240u);
  std::size_t counted = 0;
  for (const auto& bucket : buckets) {
    counted += bucket.count;
    EXPECT_LE(bucket.low, bucket.median);
    EXPECT_LE(bucket.median, bucket.high);
  }
  EXPECT_EQ(counted, 8998u);
  EXPECT_EQ(buckets.front().at, 3);
}

TEST(Thin, LeavesOutWhatIsNoNumber) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(thin({1, nan, 3}, 10).size(), 2u);
  EXPECT_TRUE(thin({nan, nan}, 1).empty());
  EXPECT_TRUE(thin({1, 2}, 10, 5).empty());
  EXPECT_TRUE(thin({}, 10).empty());
}

TEST(Rounded, KeepsFourFigures) {
  EXPECT_DOUBLE_EQ(rounded(1234.567), 1235);
  EXPECT_DOUBLE_EQ(rounded(-0.00123456), -0.001235);
  EXPECT_EQ(rounded(0), 0);
}

TEST(Plots, AreThereForACompleteStudy) {
  const Study study(synthetic_study());
  ASSERT_EQ(study.groups.size(), 2u);
  for (const auto& make : kAllPlots) {
    const Plot plot = make(study.groups[0]);
    EXPECT_TRUE(plot.present()) << plot.title;
    EXPECT_FALSE(plot.description.empty());
    EXPECT_EQ(plot.specification["description"], plot.description);
  }
  EXPECT_FALSE(accuracy_plot(study.groups[1]).present()) << "no epoch was complete";
}

TEST(Plots, StackTheLedgerInItsOwnOrder) {
  const Study study(synthetic_study());
  const Plot plot = ledger_plot(study.groups[0]);
  const auto& domain = plot.specification["encoding"]["color"]["scale"]["domain"];
  ASSERT_EQ(domain.size(), kCauses);
  EXPECT_EQ(domain.front(), "load");
  EXPECT_EQ(domain.back(), "residual");
  double sum = 0;
  for (const auto& value : plot.specification["data"]["values"])
    if (value["bar"] == "2 workers, tcp · rank 1") sum += value["ms"].get<double>();
  EXPECT_NEAR(sum, study.views[2].ranks[1].total_ms(), 0.002 * sum);
}

TEST(Plots, NeverThrowOverMissingFields) {
  const Json whole = synthetic_record({.workers = 2});
  for (const auto& [key, value] : whole.items()) {
    for (const Json& instead : {Json(), Json(3), Json("x"), Json::array(), Json::object()}) {
      Json record = whole;
      record[key] = instead;
      const Study study(std::vector<Json>{record});
      for (const auto& group : study.groups)
        for (const auto& make : kAllPlots) EXPECT_NO_THROW(make(group)) << key << " = " << instead;
    }
  }
}

TEST(Plots, SkipLossesThatAreNotNumbers) {
  Json record = synthetic_record({});
  record["loss"] = {{"epochs", {0.6, nullptr, 0.4}}};
  const Study study(std::vector<Json>{record});
  EXPECT_EQ(loss_plot(study.groups[0]).specification["data"]["values"].size(), 2u);
}

}  // namespace
}  // namespace ddl
