#include "ddl/predict/step/placed_actors.h"

#include <gtest/gtest.h>

#include "ddl/nn/builtin.h"
#include "ddl/strategy/builtin.h"

namespace ddl {
namespace {

Plan plan_of(const std::string& strategy, int workers) {
  const auto model = parse_spec("mlp[layers=8]");
  const auto graph = builtin_models().at(model.name).make(model, {1, 28, 28, 10});
  return builtin_strategies().at(parse_spec(strategy).name).make({graph, workers, 60, 4, parse_spec(strategy)});
}

std::vector<int> stands_for(const Plan& plan, int per_node) {
  std::vector<int> out;
  for (const auto& actor : placed_actors(plan, [&](int worker) { return worker / per_node; })) out.push_back(actor.worker);
  return out;
}

TEST(PlacedActors, WhoLieAlikeAreStoodForByTheFirst) {
  for (const auto* strategy : {"data", "sharded[level=2]", "pipeline[micro=2]", "hybrid[data=2,tensor=2]", "parameter-server"}) {
    const auto plan = plan_of(strategy, 4);
    std::vector<int> first;
    for (const auto& role : plan.roles) first.push_back(role.first);
    EXPECT_EQ(stands_for(plan, 4), first) << strategy;
    if (plan.serving.servers == 0) {
      EXPECT_EQ(stands_for(plan, 2), first) << strategy << ": as much over wires for each";
    }
  }
}

// Five workers of one role and a server: the first two on its node of three.
TEST(PlacedActors, AWorkerOnAnotherNodeThanItsServer) {
  const auto plan = plan_of("parameter-server", 6);
  ASSERT_EQ(plan.roles.size(), 2U);
  EXPECT_EQ(stands_for(plan, 3), (std::vector<int>{0, 3}));
  EXPECT_EQ(stands_for(plan, 1), (std::vector<int>{0, 1}));
}

// Parts 3 to 5 are on both nodes, 0 to 2 on one; the replica of 4 is on another node than it, that of 3 on its own.
TEST(PlacedActors, AGroupThatStraddlesANode) {
  const auto plan = plan_of("hybrid[data=2,tensor=3]", 6);
  ASSERT_EQ(plan.roles.size(), 1U);
  EXPECT_EQ(stands_for(plan, 4), (std::vector<int>{4}));
}

}  // namespace
}  // namespace ddl
