#include "ddl/report/traits.h"

#include <gtest/gtest.h>

#include "ddl/report/synthetic_records.h"

namespace ddl {
namespace {

std::vector<std::string> labels(const std::vector<Json>& records) {
  std::vector<std::string> all;
  for (const auto& view : view_runs(records)) all.push_back(view.label);
  return all;
}

Json with(Json record, const std::string& key, const Json& value) {
  record["config"][key] = value;
  return record;
}

TEST(Labels, NameWhatDiffers) {
  EXPECT_EQ(labels({synthetic_record({.strategy = "single"}), synthetic_record({.workers = 2, .number = 1}), synthetic_record({.workers = 4, .number = 2, .strategy = "pipeline[micro=4]"})}),
            (std::vector<std::string>{"lenet, 1 worker, single", "lenet, 2 workers, shm, data", "lenet, 4 workers, shm, pipeline[micro=4]"}));
  EXPECT_EQ(labels({synthetic_record({}), synthetic_record({.number = 1, .batch = 128})}), (std::vector<std::string>{"lenet, 1 worker, batch 64", "lenet, 1 worker, batch 128"}));
  EXPECT_EQ(labels({synthetic_record({}), with(synthetic_record({.number = 1}), "precision", "bf16"), with(synthetic_record({.number = 2}), "dataset", "mnist")}),
            (std::vector<std::string>{"lenet, 1 worker, fashion-mnist, fp32", "lenet, 1 worker, fashion-mnist, bf16", "lenet, 1 worker, mnist, fp32"}));
}

TEST(Labels, SayNothingTwice) {
  auto one = synthetic_record({}), other = synthetic_record({.number = 1, .strategy = "hybrid[data=2,pipeline=2]"});
  one["case"] = "lenet, 1 worker, data";
  other["case"] = "lenet, 4 workers, hybrid[data=2,pipeline=2]";
  EXPECT_EQ(labels({one, other}), (std::vector<std::string>{"lenet, 1 worker, data", "lenet, 4 workers, hybrid[data=2,pipeline=2]"}));
  one = with(one, "workers", "cpu[threads=2]:2");
  one["case"] = "lenet, cpu[threads=2]:2, data";
  EXPECT_EQ(labels({one, other}), (std::vector<std::string>{"lenet, cpu[threads=2]:2, data", "lenet, 4 workers, hybrid[data=2,pipeline=2], cpu"}));
}

TEST(Labels, LeaveOutWhatCannotMatter) {
  EXPECT_EQ(labels({synthetic_record({}), synthetic_record({.transport = "tcp", .number = 1})}), (std::vector<std::string>{"lenet, 1 worker #1", "lenet, 1 worker #2"}));
  // Graphs are of GPUs.
  auto on = with(synthetic_record({}), "graphs", "on"), off = with(synthetic_record({.number = 1}), "graphs", "off");
  EXPECT_EQ(labels({on, off}), (std::vector<std::string>{"lenet, 1 worker #1", "lenet, 1 worker #2"}));
  for (auto* const record : {&on, &off}) (*record)["ranks"][0]["accelerator"] = {{"product", "NVIDIA H100"}};
  EXPECT_EQ(labels({on, off}), (std::vector<std::string>{"lenet, 1 worker, graphs on", "lenet, 1 worker, graphs off"}));
}

}  // namespace
}  // namespace ddl
