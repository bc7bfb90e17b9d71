#include "ddl/train/pinning.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "ddl/measure/affinity.h"
#include "ddl/measure/topology.h"

namespace ddl {
namespace {

Job job_of(std::vector<WorkerSpec> workers) {
  Job job;
  job.workers = std::move(workers);
  return job;
}

/// Of all of this process's threads.
std::multiset<std::vector<int>> affinities() {
  std::multiset<std::vector<int>> all;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (::sched_getaffinity(std::stoi(task.path().filename()), sizeof set, &set) != 0) continue;  // it has ended
    std::vector<int> units;
    for (int unit = 0; unit < CPU_SETSIZE; ++unit)
      if (CPU_ISSET(unit, &set)) units.push_back(unit);
    all.insert(units);
  }
  return all;
}

/// Once no other run on this machine, of another test say, has its cores.
std::unique_ptr<Pinning> pinned(const Job& job, int rank = 0) {
  for (int tries = 0;; ++tries) {
    auto pinning = std::make_unique<Pinning>(job, rank);
    const auto why = pinning->json().at("not_bound");
    if (!why.is_string() || !why.get<std::string>().starts_with("another run has") || tries > 3000) return pinning;
    pinning.reset();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

std::string why_not(const Pinning& pinning) {
  const auto json = pinning.json();
  EXPECT_TRUE(json.at("bound").is_null());
  return json.at("not_bound").is_string() ? json.at("not_bound").get<std::string>() : "bound";
}

class PinningTest : public ::testing::Test {
 protected:
  void SetUp() override { before_ = at::get_num_threads(); }
  void TearDown() override {
    at::set_num_threads(before_);
    EXPECT_EQ(affinity(), allowed_);
  }

  std::vector<int> allowed_ = affinity();
  int before_ = 1;
};

TEST_F(PinningTest, BindsEachThreadThatComputesAndLetsGoOfAll) {
  const auto threads = static_cast<int>(std::min<std::size_t>(2, allowed_.size()));
  at::set_num_threads(threads);
  {
    const auto pinning = pinned(job_of({{"cpu", threads}}));
    const auto bound = pinning->json().at("bound").get<std::vector<int>>();
    ASSERT_EQ(bound.size(), static_cast<std::size_t>(threads));
    EXPECT_EQ(affinity(), std::vector{bound.front()});
    const auto all = affinities();
    for (const int unit : bound) EXPECT_EQ(all.count({unit}), allowed_.size() == 1 ? all.size() : 1U) << unit;
    {
      const auto roaming = pinning->roam();
      EXPECT_EQ(affinity(), allowed_);
      std::thread([&] { EXPECT_EQ(affinity(), allowed_); }).join();
    }
    EXPECT_EQ(affinity(), std::vector{bound.front()});
    std::thread([&] {
      EXPECT_EQ(affinity(), std::vector{bound.front()});
      pinning->release_this_thread();
      EXPECT_EQ(affinity(), allowed_);
    }).join();
  }
  for (const auto& each : affinities()) EXPECT_EQ(each, allowed_) << "LibTorch's threads outlive a worker";
}

TEST_F(PinningTest, GivesNoCoreToTwoWorkers) {
  at::set_num_threads(1);
  std::vector<WorkerSpec> workers(allowed_.size());
  std::set<int> units;
  for (int rank = 0; rank < static_cast<int>(workers.size()); ++rank)
    for (const int unit : pinned(job_of(workers), rank)->json().at("bound").get<std::vector<int>>()) EXPECT_TRUE(units.insert(unit).second) << unit;
  EXPECT_EQ(units.size(), allowed_.size());
  workers.emplace_back();
  EXPECT_EQ(why_not(Pinning(job_of(workers), 0)), fmt::format("the workers here have {} threads and may use {} processing units", workers.size(), allowed_.size()));
}

TEST_F(PinningTest, LeavesAloneWhatItIsNotToBind) {
  auto job = job_of({{}, {"emulated:v100", 1}, {"cuda:0", 1}});
  EXPECT_EQ(why_not(Pinning(job, 1)), "an emulated worker waits instead of computing");
  EXPECT_EQ(why_not(Pinning(job, 2)), "it computes on cuda:0");
  job.pin = "off";
  EXPECT_EQ(why_not(Pinning(job, 0)), "pin is off");
}

// Who shares this machine's cores: not those on other hosts, but those of a test network, which are all here.
TEST_F(PinningTest, CountsTheWorkersOfThisMachineThatCompute) {
  auto job = job_of({{}, {"emulated:v100", 1}, {}, {}, {}});
  EXPECT_EQ(computing_workers(job, 0), (std::vector{0, 2, 3, 4}));
  job.hosts = {0, 0, 0, 1, 1};
  EXPECT_EQ(computing_workers(job, 0), (std::vector{0, 2}));
  EXPECT_EQ(computing_workers(job, 4), (std::vector{3, 4}));
  job.fabric = "hosts=2";
  EXPECT_EQ(computing_workers(job, 4), (std::vector{0, 2, 3, 4}));
}

// mpirun's and srun's own binding: each rank has other cores, which are not ours to share out.
TEST_F(PinningTest, LeavesALaunchersBindingAlone) {
  at::set_num_threads(1);
  auto job = job_of({{}});
  job.launched = true;
  const auto all = Topology().all();
  if (static_cast<int>(allowed_.size()) == all) {
    EXPECT_EQ(pinned(job)->json().at("bound").size(), 1U) << "it bound nothing";
  }
  if (all == 1) return;
  ASSERT_EQ(set_affinity({allowed_.front()}), 0);
  EXPECT_EQ(why_not(Pinning(job, 0)), fmt::format("its launcher bound it to 1 of {} processing units", all));
  job.launched = false;
  EXPECT_EQ(pinned(job)->json().at("bound"), Json({allowed_.front()}));
  ASSERT_EQ(set_affinity(allowed_), 0);
}

}  // namespace
}  // namespace ddl
