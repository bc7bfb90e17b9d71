#include "ddl/plan/plan.h"

#include <ctime>

#include <gtest/gtest.h>

#include "ddl/core/error.h"
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
  Plan plan;
  plan.strategy = "data";
  plan.mesh.axes = {{"data", 2}};
  plan.stages = {{0, 1, {0, 1}}};
  plan.groups = {{"data", {{0}}}};
  Role role{"worker", 0, 2, {}, {}, {0}, {{{0, 1}, 8}}};
  role.tasks = {task(TaskKind::load, "load"), task(TaskKind::forward, "forward", {0}), task(TaskKind::backward, "backward", {1}),
                task(TaskKind::collective, "all-reduce", {}, Stream::communication), task(TaskKind::update, "update", {3})};
  role.tasks[3].waits_for = role.tasks[3].bucket = role.tasks[4].bucket = 0;
  role.tasks[3].group = 0;
  role.tasks[3].bytes = 8;
  plan.roles = {role};
  return plan;
}

/// The same, of two roles of one worker each.
Plan two_roles() {
  auto plan = two_workers();
  plan.roles[0].count = 1;
  plan.roles.push_back(plan.roles[0]);
  plan.roles[1].name = "other";
  plan.roles[1].first = 1;
  return plan;
}

/// A worker that sends what it made to another.
Plan two_stages() {
  Plan plan;
  plan.strategy = "model";
  plan.mesh.axes = {{"pipeline", 2}};
  plan.stages = {{0, 1, {}}, {1, 2, {}}};
  auto send = task(TaskKind::send, "send", {}, Stream::communication);
  send.peer = send.to_stage = 1;
  send.cargo = Cargo::activations;
  send.bytes = 10;
  auto receive = send;
  receive.kind = TaskKind::receive;
  receive.label = "receive";
  receive.peer = 0;
  plan.roles = {{"first", 0, 1, {send}, {}, {0}}, {"second", 1, 1, {receive}, {}, {1}}};
  return plan;
}

void expect_finding(const Plan& plan, std::string_view part, int parameters = 2, std::int64_t limit = 0) {
  const auto findings = verify(plan, parameters, limit);
  bool found = false;
  for (const auto& finding : findings) found = found || finding.find(part) != std::string::npos;
  EXPECT_TRUE(found) << "wanted '" << part << "', got: " << join(findings, "; ");
}

TEST(VerifyPlan, AcceptsASoundOne) { EXPECT_TRUE(verify(two_workers(), 2).empty()) << join(verify(two_workers(), 2), "; "); }

TEST(VerifyPlan, FindsMessagesWithinARoleThatGoNowhere) {
  auto plan = two_workers();
  auto send = task(TaskKind::send, "send", {}, Stream::communication), receive = task(TaskKind::receive, "receive", {}, Stream::communication);
  send.cargo = receive.cargo = Cargo::parameters;
  send.peer = receive.peer = 0;
  send.bucket = receive.bucket = 0;
  send.shift = receive.shift = 1;  // of two workers one place on is one place back
  plan.roles[0].tasks.push_back(send);
  plan.roles[0].tasks.push_back(receive);
  EXPECT_TRUE(verify(plan, 2).empty()) << join(verify(plan, 2), "; ");
  auto itself = plan;
  itself.roles[0].tasks[5].shift = 2;
  expect_finding(itself, "'send' is to the worker itself; got 2 places on of 2");
  auto both = plan;
  both.roles[0].tasks[5].flip = 1;
  expect_finding(both, "expected one of them");
  auto unheard = plan;
  unheard.roles[0].tasks.pop_back();
  expect_finding(unheard, "deadlock: worker cannot start 'send'");
  auto never = plan;
  never.roles[0].tasks[5].every = 0;
  expect_finding(never, "is done every 0 steps; expected 1 or more");
}

TEST(VerifyPlan, FindsADependencyCycle) {
  auto plan = two_workers();
  plan.roles[0].tasks[0].after = {4};
  expect_finding(plan, "deadlock: worker cannot start 'load'");
}

TEST(VerifyPlan, FindsWorkersWithoutARole) {
  auto plan = two_workers();
  plan.mesh.axes[0].size = 3;
  expect_finding(plan, "roles cover 2 workers, the plan has 3");
}

TEST(VerifyPlan, FindsParametersMissingOrTwice) {
  expect_finding(two_workers(), "parameter 2 is in no stage", 3);
  auto plan = two_workers();
  plan.roles[0].buckets[0].parameters = {0, 0};
  expect_finding(plan, "parameter 0 is in 2 buckets");
}

TEST(VerifyPlan, FindsABucketThatNobodyUpdates) {
  auto plan = two_workers();
  plan.roles[0].tasks.pop_back();
  expect_finding(plan, "bucket 0 has 0 updates");
}

TEST(VerifyPlan, FindsParametersThatNobodyUpdates) {
  auto plan = two_workers();
  plan.roles[0].buckets[0].parameters = {0};
  expect_finding(plan, "parameters in no bucket have 0 updates; expected 1");
  plan.roles[0].stages.clear();
  expect_finding(plan, "stage 0 is held by nobody");
}

TEST(VerifyPlan, FindsCollectivesOfDifferentSizeAndRolesThatStayAway) {
  const auto plan = two_roles();
  EXPECT_TRUE(verify(plan, 2).empty()) << join(verify(plan, 2), "; ");
  auto sizes = plan;
  sizes.roles[1].tasks[3].bytes = 4;
  expect_finding(sizes, "other joins 'all-reduce' (4 bytes)");
  auto away = plan;
  away.roles[1].tasks.erase(away.roles[1].tasks.begin() + 3);
  away.roles[1].tasks.back().after = {2};
  expect_finding(away, "deadlock: worker cannot start 'all-reduce'");
}

TEST(VerifyPlan, FindsCollectivesOfTwoGroupsInDifferentOrders) {
  auto plan = two_roles();
  plan.groups.push_back({"other", {{0}}});
  for (auto& role : plan.roles) {
    auto more = role.tasks[3];
    more.waits_for = more.bucket = kNone;
    more.label = "more";
    more.group = 1;
    role.tasks.push_back(more);
  }
  EXPECT_TRUE(verify(plan, 2).empty()) << join(verify(plan, 2), "; ");
  plan.roles[0].tasks[3].after = {5};
  plan.roles[1].tasks[5].after = {3};
  expect_finding(plan, "deadlock: other cannot start 'more' on its communication stream");
}

TEST(VerifyPlan, FindsGroupsThatTheWorkersAreNotIn) {
  auto plan = two_workers();
  plan.groups[0].along[0].only = {1};
  expect_finding(plan, "is of group 'data', which its workers are not in");
  plan.groups[0].along[0].only = {2};
  expect_finding(plan, "group 'data' is at place 2 of axis 'data', which has 2");
}

TEST(VerifyPlan, FindsSendsWithoutReceivesAndWrongSizes) {
  auto plan = two_stages();
  EXPECT_TRUE(verify(plan, 0).empty()) << join(verify(plan, 0), "; ");
  plan.roles[1].tasks[0].bytes = 9;
  expect_finding(plan, "first sends 10 bytes as 'send', second expects 9", 0);
  plan.roles[1].tasks[0].bytes = 10;
  plan.roles[1].tasks[0].micro_batch = 1;
  expect_finding(plan, "first sends 10 bytes as 'send'", 0);
  plan.roles[1].tasks.clear();
  expect_finding(plan, "deadlock: first cannot start 'send'", 0);
}

// Each waits for the other's message before it sends its own.
TEST(VerifyPlan, FindsMessagesThatWaitForEachOther) {
  auto plan = two_stages();
  for (auto& role : plan.roles) {
    auto other = role.tasks[0];
    other.kind = other.kind == TaskKind::send ? TaskKind::receive : TaskKind::send;
    other.label = "other";
    other.cargo = Cargo::activation_gradients;
    role.tasks.push_back(other);
  }
  EXPECT_TRUE(verify(plan, 0).empty()) << join(verify(plan, 0), "; ");
  plan.roles[0].tasks[0].after = {1};
  EXPECT_TRUE(verify(plan, 0).empty()) << "a receive before a send is no deadlock";
  plan.roles[1].tasks[1].after = {0};
  expect_finding(plan, "deadlock: second cannot start 'receive'", 0);
}

TEST(Meetings, AreTheSameNumberInAllRolesThatTakePart) {
  auto plan = two_roles();
  number_meetings(plan);
  EXPECT_NE(plan.roles[0].tasks[3].meeting, kNone);
  EXPECT_EQ(plan.roles[0].tasks[3].meeting, plan.roles[1].tasks[3].meeting);
  EXPECT_EQ(plan.roles[0].tasks[0].meeting, kNone);
}

TEST(VerifyPlan, FindsTooMuchMemory) {
  auto plan = two_workers();
  plan.roles[0].holds.activations = 100;
  expect_finding(plan, "holds 100 B (parameters 0 B, gradients 0 B, optimizer 0 B, buckets 0 B, activations 100 B), more than the limit of 99 B", 2, 99);
}

// A role each, and sixteen messages: a minute's work where it grew with the square.
TEST(VerifyPlan, IsQuickForThousandsOfWorkers) {
  constexpr int kWorkers = 4096;
  Plan plan;
  plan.strategy = "ring";
  plan.mesh.axes = {{"pipeline", kWorkers}};
  for (int worker = 0; worker < kWorkers; ++worker) {
    plan.stages.push_back({worker, worker + 1, {}});
    Role role{fmt::format("worker {}", worker), worker, 1, {}, {}, {worker}};
    for (int micro = 0; micro < 16; ++micro) {
      auto receive = task(TaskKind::receive, fmt::format("receive {}", micro), {}, Stream::communication);
      receive.cargo = Cargo::activations;
      receive.peer = worker - 1;
      receive.stage = worker - 1;
      receive.to_stage = worker;
      receive.micro_batch = micro;
      if (worker > 0) role.tasks.push_back(receive);
      auto forward = task(TaskKind::forward, fmt::format("forward {}", micro));
      if (worker > 0) forward.after = {static_cast<int>(role.tasks.size()) - 1};
      role.tasks.push_back(forward);
      auto send = receive;
      send.kind = TaskKind::send;
      send.label = fmt::format("send {}", micro);
      send.after = {static_cast<int>(role.tasks.size()) - 1};
      send.peer = worker + 1;
      send.stage = worker;
      send.to_stage = worker + 1;
      if (worker + 1 < kWorkers) role.tasks.push_back(send);
    }
    plan.roles.push_back(std::move(role));
  }
  const auto begin = std::clock();  // of the processor, which others use, too
  EXPECT_TRUE(verify(plan, 0).empty());
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 1.0);
}

}  // namespace
}  // namespace ddl
