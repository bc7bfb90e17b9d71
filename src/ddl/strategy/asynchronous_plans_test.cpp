#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ddl/core/text.h"
#include "ddl/nn/builtin.h"
#include "ddl/plan/meetings.h"
#include "ddl/strategy/builtin.h"

// Asynchronous plans are verified over one step (plan/run_queues.h): with the same result as over as many as there are in flight, of sound plans and of others.
namespace ddl {
namespace {

int deepest(const Plan& plan) {
  int most = 0;
  for (const auto& role : plan.roles) most = std::max(most, depth(role));
  return most;
}

/// Without parameters, which an unrolled plan would update once in each of its steps.
Plan plan_of(const char* form, int workers) {
  const auto spec = parse_spec(form);
  const auto graph = builtin_models().at("null").make(parse_spec("null[layers=16]"), natural_shape("null"));
  auto plan = builtin_strategies().at(spec.name).make({graph, workers, 64, 4, spec, {}});
  for (auto& stage : plan.stages) stage.parameters.clear();
  for (auto& role : plan.roles) {
    role.buckets.clear();
    for (auto& task : role.tasks) {
      task.bucket = kNone;
      if (task.kind == TaskKind::update) task.kind = TaskKind::release;
    }
  }
  return plan;
}

using Random = std::mt19937;

std::size_t below(Random& random, std::size_t end) { return std::uniform_int_distribution<std::size_t>(0, end - 1)(random); }

/// The role's tasks in another order: two next to each other change places.
void swap_neighbours(Role& role, Random& random) {
  const auto i = below(random, role.tasks.size() - 1);
  std::swap(role.tasks[i], role.tasks[i + 1]);
  for (auto& task : role.tasks)
    for (int& other : task.after) other = other == static_cast<int>(i) ? other + 1 : other == static_cast<int>(i) + 1 ? other - 1 : other;
}

void wait_for_another(Role& role, Random& random) {
  const auto i = below(random, role.tasks.size()), other = below(random, role.tasks.size());
  if (i != other) role.tasks[i].after.push_back(static_cast<int>(other));
}

void forget_a_wait(Role& role, Random& random) {
  if (auto& after = role.tasks[below(random, role.tasks.size())].after; !after.empty()) after.pop_back();
}

/// What a role does with a message it does one step earlier or later than was planned.
void shift_a_message(Role& role, Random& random) {
  auto& task = role.tasks[below(random, role.tasks.size())];
  if (is_transfer(task)) task.ahead = std::max(0, task.ahead + (below(random, 2) == 0 ? 1 : -1));
}

TEST(AsynchronousPlans, AreVerifiedOverOneStepAsOverMany) {
  struct Form {
    const char* words;
    int workers;
  };
  Random random(7);
  int refused = 0, accepted = 0;
  for (const auto& [words, workers] : {Form{"pipeline[schedule=pipedream,balance=count]", 4}, Form{"pipeline[schedule=pipedream-2bw,micro=4,balance=count]", 3},
                                       Form{"pipeline[schedule=pipedream-2bw,micro=5,balance=count]", 4}, Form{"pipeline[schedule=pipedream,replicas=2/1,balance=count]", 3},
                                       Form{"pipeline[schedule=pipedream-2bw,replicas=1/2,micro=4,balance=count]", 3},
                                       Form{"hybrid[pipeline=3,data=2,schedule=pipedream]", 6}}) {
    const auto sound = plan_of(words, workers);
    EXPECT_TRUE(verify(sound, 0).empty()) << words << ": " << join(verify(sound, 0), "; ");
    for (int round = 0; round < 400; ++round) {
      auto plan = sound;
      auto& role = plan.roles[below(random, plan.roles.size())];
      const auto changes = 1 + below(random, 3);
      for (std::size_t change = 0; change < changes; ++change)
        switch (below(random, 4)) {
          case 0: swap_neighbours(role, random); break;
          case 1: wait_for_another(role, random); break;
          case 2: forget_a_wait(role, random); break;
          default: shift_a_message(role, random);
        }
      if (!plan.asynchronous()) continue;
      const auto expected = verify(unroll(plan, 4 * deepest(plan) + 4), 0), found = verify(plan, 0);
      EXPECT_EQ(found.empty(), expected.empty()) << words << ", round " << round << ": " << join(found, "; ") << "\nunrolled: " << join(expected, "; ").substr(0, 1000);
      ++(expected.empty() ? accepted : refused);
    }
  }
  EXPECT_GT(refused, 500);
  EXPECT_GT(accepted, 500);
}

}  // namespace
}  // namespace ddl
