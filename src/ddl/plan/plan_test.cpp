#include "ddl/plan/plan.h"

#include <gtest/gtest.h>

#include "ddl/core/text.h"

namespace ddl {
namespace {

Task task(TaskKind kind, std::string label, std::vector<int> after = {}, Stream stream = Stream::compute) {
  Task made;
  made.kind = kind;
  made.label = std::move(label);
  made.after = std::move(after);
  made.stream = stream;
  return made;
}

Plan two_workers() {
  Plan plan{"data", 2, {{{0, 1}, 8}}, {}};
  Role role{"worker", 0, 2, {}, {}};
  role.tasks = {task(TaskKind::load, "load"), task(TaskKind::forward, "forward", {0}), task(TaskKind::backward, "backward", {1}),
                task(TaskKind::collective, "all-reduce", {}, Stream::communication), task(TaskKind::update, "update", {3})};
  role.tasks[3].waits_for = role.tasks[3].bucket = role.tasks[4].bucket = 0;
  role.tasks[3].bytes = 8;
  plan.roles = {role};
  return plan;
}

void expect_finding(const Plan& plan, std::string_view part, int parameters = 2, std::int64_t limit = 0) {
  const auto findings = verify(plan, parameters, limit);
  bool found = false;
  for (const auto& finding : findings) found = found || finding.find(part) != std::string::npos;
  EXPECT_TRUE(found) << "wanted '" << part << "', got: " << join(findings, "; ");
}

TEST(VerifyPlan, AcceptsASoundOne) { EXPECT_TRUE(verify(two_workers(), 2).empty()) << join(verify(two_workers(), 2), "; "); }

TEST(VerifyPlan, FindsADependencyCycle) {
  auto plan = two_workers();
  plan.roles[0].tasks[0].after = {4};
  expect_finding(plan, "deadlock: worker cannot start 'load'");
}

TEST(VerifyPlan, FindsWorkersWithoutARole) {
  auto plan = two_workers();
  plan.workers = 3;
  expect_finding(plan, "roles cover 2 workers, the plan has 3");
}

TEST(VerifyPlan, FindsParametersMissingOrTwice) {
  expect_finding(two_workers(), "parameter 2 is in 0 buckets", 3);
  auto plan = two_workers();
  plan.buckets[0].parameters = {0, 0};
  expect_finding(plan, "parameter 0 is in 2 buckets");
}

TEST(VerifyPlan, FindsABucketThatNobodyUpdates) {
  auto plan = two_workers();
  plan.roles[0].tasks.pop_back();
  expect_finding(plan, "bucket 0 has 0 updates");
}

TEST(VerifyPlan, FindsCollectivesOfDifferentSizeAndRolesThatStayAway) {
  auto plan = two_workers();
  plan.roles[0].count = 1;
  plan.roles.push_back(plan.roles[0]);
  plan.roles[1].name = "other";
  plan.roles[1].first = 1;
  EXPECT_TRUE(verify(plan, 2).empty());
  auto sizes = plan;
  sizes.roles[1].tasks[3].bytes = 4;
  expect_finding(sizes, "other joins 'all-reduce' (4 bytes)");
  auto away = plan;
  away.roles[1].tasks = {task(TaskKind::load, "load")};
  expect_finding(away, "deadlock: worker cannot start 'all-reduce'");
}

TEST(VerifyPlan, FindsSendsWithoutReceivesAndWrongSizes) {
  Plan plan{"model", 2, {}, {}};
  auto send = task(TaskKind::send, "send");
  send.peer = 1;
  send.bytes = 10;
  auto receive = task(TaskKind::receive, "receive");
  receive.peer = 0;
  receive.bytes = 10;
  plan.roles = {{"first", 0, 1, {send}, {}}, {"second", 1, 1, {receive}, {}}};
  EXPECT_TRUE(verify(plan, 0).empty());
  plan.roles[1].tasks[0].bytes = 9;
  expect_finding(plan, "sends 10 bytes", 0);
  plan.roles[1].tasks.clear();
  expect_finding(plan, "deadlock: first cannot start 'send'", 0);
}

TEST(VerifyPlan, FindsTooMuchMemory) {
  auto plan = two_workers();
  plan.roles[0].holds.activations = 100;
  expect_finding(plan, "holds 100 bytes; the limit is 99", 2, 99);
}

TEST(VerifyPlan, IsQuickForThousandsOfWorkers) {
  auto plan = two_workers();
  plan.workers = plan.roles[0].count = 4096;
  EXPECT_TRUE(verify(plan, 2).empty());
}

}  // namespace
}  // namespace ddl
