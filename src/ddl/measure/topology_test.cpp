#include "ddl/measure/topology.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/measure/affinity.h"

namespace ddl {
namespace {

using Places = std::vector<std::vector<int>>;

// Eight cores of two hardware threads in two packages: PUs 2c and 2c + 1 are of core c.
constexpr const char* kTwoPackages = "pack:2 core:4 pu:2";

TEST(Topology, GivesWorkersPackagesOfTheirOwnAndTheirThreadsCoresOfTheirOwn) {
  const Topology machine(kTwoPackages);
  EXPECT_EQ(machine.all(), 16);
  EXPECT_EQ(machine.place({1}), (Places{{0}}));
  EXPECT_EQ(machine.place({1, 1}), (Places{{0}, {8}}));
  EXPECT_EQ(machine.place({4, 4}), (Places{{0, 2, 4, 6}, {8, 10, 12, 14}}));
  EXPECT_EQ(machine.place({2, 2, 2, 2}), (Places{{0, 2}, {4, 6}, {8, 10}, {12, 14}}));
  EXPECT_EQ(machine.place({1, 1, 1, 1, 1, 1, 1, 1}), (Places{{0}, {2}, {4}, {6}, {8}, {10}, {12}, {14}}));
}

TEST(Topology, SharesCoresOnlyWhereThereAreTooFew) {
  const Topology machine(kTwoPackages);
  EXPECT_EQ(machine.place({3, 3, 3}), (Places{{0, 1, 2}, {4, 5, 6}, {8, 9, 10}})) << "nine threads, eight cores";
  EXPECT_EQ(machine.place({8, 8}), (Places{{0, 1, 2, 3, 4, 5, 6, 7}, {8, 9, 10, 11, 12, 13, 14, 15}}));
  EXPECT_EQ(machine.place({16}).front().size(), 16U);
}

TEST(Topology, RefusesMoreThreadsThanThereAre) {
  EXPECT_EQ(Topology(kTwoPackages).place({8, 9}), Places{});
  EXPECT_EQ(Topology("core:2 pu:1").place({1, 1, 1}), Places{});
  EXPECT_EQ(Topology("core:2 pu:1").place({}), Places{});
}

TEST(Topology, PutsUnequalWorkersInARowWhereTheirSharesDoNotFit) {
  const Topology machine(kTwoPackages);
  EXPECT_EQ(machine.place({6, 1, 1}), (Places{{0, 2, 4, 6, 8, 10}, {12}, {14}}));
  EXPECT_EQ(Topology("pack:2 core:3 pu:1").place({2, 2, 2}), (Places{{0, 1}, {2, 3}, {4, 5}}));
}

TEST(Topology, StaysWithinWhatMayBeUsed) {
  const Topology two(kTwoPackages, {5, 9});
  EXPECT_EQ(two.usable(), (std::vector{5, 9}));
  EXPECT_EQ(two.all(), 16);
  EXPECT_EQ(two.place({1, 1}), (Places{{5}, {9}}));
  EXPECT_EQ(two.place({1, 1, 1}), Places{});
  // Of one core both hardware threads, of another one: a thread on each core, not two on the first.
  EXPECT_EQ(Topology(kTwoPackages, {0, 1, 3}).place({1, 1}), (Places{{0}, {3}}));
}

// Whatever the machine: no PU twice, and no core twice while there are enough.
TEST(Topology, NeverGivesOneThingTwice) {
  for (const char* description : {"core:3 pu:1", "core:4 pu:2", kTwoPackages, "pack:3 l3:2 core:3 pu:2", "pack:2 numa:2 core:4 pu:4", "pu:6"}) {
    const Topology machine(description);
    const int hardware_threads = std::string(description).ends_with("pu:4") ? 4 : std::string(description).ends_with("pu:2") ? 2 : 1;
    const int cores = description == std::string("pu:6") ? 6 : machine.all() / hardware_threads;
    for (int workers = 1; workers <= machine.all(); ++workers)
      for (int threads = 1; workers * threads <= machine.all(); ++threads) {
        const auto places = machine.place(std::vector<int>(static_cast<std::size_t>(workers), threads));
        ASSERT_EQ(places.size(), static_cast<std::size_t>(workers)) << description;
        std::set<int> units, used;
        for (const auto& each : places) {
          ASSERT_EQ(each.size(), static_cast<std::size_t>(threads)) << description << " " << workers;
          for (const int unit : each) {
            units.insert(unit);
            used.insert(description == std::string("pu:6") ? unit : unit / hardware_threads);
          }
        }
        EXPECT_EQ(units.size(), static_cast<std::size_t>(workers * threads)) << description << " " << workers;
        if (workers * threads <= cores) {
          EXPECT_EQ(used.size(), units.size()) << description << " " << workers;
        }
      }
  }
}

TEST(Topology, RefusesWhatIsNoDescription) {
  try {
    const Topology none("packages of cores");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument);
    EXPECT_NE(std::string(error.what()).find("'packages of cores'"), std::string::npos) << error.what();
  }
}

TEST(Topology, IsThisMachines) {
  const auto allowed = affinity();
  ASSERT_FALSE(allowed.empty());
  std::thread([&] {
    ASSERT_EQ(set_affinity({allowed.back()}), 0);
    EXPECT_EQ(affinity(), std::vector{allowed.back()});
    const Topology here;
    EXPECT_EQ(here.usable(), std::vector{allowed.back()});
    EXPECT_GE(here.all(), static_cast<int>(allowed.size()));
    EXPECT_EQ(here.place({1}), (Places{{allowed.back()}}));
  }).join();
  EXPECT_EQ(affinity(), allowed) << "of one thread, not of the process";
  auto usable = Topology().usable();
  std::sort(usable.begin(), usable.end());
  EXPECT_EQ(usable, allowed);
}

TEST(Topology, SaysThatThereIsNoSuchUnit) {
  std::thread([] { EXPECT_NE(set_affinity({8191}), 0); }).join();
}

TEST(Topology, IsOfNoUseWhereHwlocIsToldOfAnotherMachine) {
  ::setenv("HWLOC_SYNTHETIC", "pack:2 core:4 pu:2", 1);
  EXPECT_THROW(Topology(), Error);
  ::unsetenv("HWLOC_SYNTHETIC");
}

}  // namespace
}  // namespace ddl
