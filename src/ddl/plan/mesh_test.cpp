#include "ddl/plan/mesh.h"

#include <gtest/gtest.h>

namespace ddl {
namespace {

const Mesh kMesh{{{"pipeline", 2}, {"data", 3}, {"tensor", 2}}};

TEST(Mesh, CountsTheLastAxisFastest) {
  EXPECT_EQ(kMesh.workers(), 12);
  EXPECT_EQ(kMesh.coordinates(7), (std::vector<int>{1, 0, 1}));
  for (int worker = 0; worker < kMesh.workers(); ++worker) EXPECT_EQ(kMesh.worker(kMesh.coordinates(worker)), worker);
  EXPECT_EQ(kMesh.size("data"), 3);
  EXPECT_EQ(kMesh.coordinate("data", 4), 2);
}

TEST(Mesh, IsOneWorkerAlongAxesThatItLacks) {
  EXPECT_EQ(Mesh{}.workers(), 1);
  EXPECT_EQ(kMesh.size("sharded"), 1);
  EXPECT_EQ(kMesh.coordinate("sharded", 5), 0);
}

TEST(Group, HasThoseThatDifferAlongItsAxes) {
  EXPECT_EQ(members(kMesh, {"data", {{1}}}, 9), (std::vector<int>{7, 9, 11}));
  EXPECT_EQ(members(kMesh, {"replicas", {{0}, {1}}}, 1), (std::vector<int>{1, 3, 5, 7, 9, 11}));
  EXPECT_EQ(members(kMesh, {"alone", {}}, 4), (std::vector<int>{4}));
}

TEST(Group, CanBeOfSomePlacesAlone) {
  const Group ends{"ends", {{1, {2, 0}}}};
  EXPECT_EQ(members(kMesh, ends, 0), (std::vector<int>{4, 0}));
  EXPECT_TRUE(members(kMesh, ends, 2).empty());
}

}  // namespace
}  // namespace ddl
