#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "ddl/core/error.h"
#include "ddl/transport/network_namespace.h"

namespace ddl::testing {

/// Why no fabric can be made here; empty where one can.
inline const std::string& fabric_lacks() {
  static const std::string lacks = []() -> std::string {
    try {
      require_namespaces();
      run_iproute2({"ip", "-V"});
      run_iproute2({"tc", "-V"});
      // What a fabric is made of, one by one: a kernel or a sandbox may lack any.
      const NetworkNamespace space("probe");
      run_iproute2({"ip", "-n", space.name(), "link", "set", "lo", "up"});
      run_iproute2({"ip", "-n", space.name(), "link", "add", "here", "type", "veth", "peer", "name", "there"});
      run_iproute2({"ip", "-n", space.name(), "link", "add", "between", "type", "bridge"});
      run_iproute2({"ip", "-n", space.name(), "link", "set", "here", "gso_max_size", "32768"});
      run_iproute2({"tc", "-n", space.name(), "qdisc", "add", "dev", "here", "root", "tbf", "rate", "1mbit", "burst", "10kb", "latency", "10ms"});
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  }();
  return lacks;
}

/// Names of network namespaces whose maker is process `pid`.
inline std::set<std::string> left_by(pid_t pid) {
  std::set<std::string> names;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/run/netns", none))
    if (const auto name = entry.path().filename().string(); name.starts_with(fmt::format("ddlbench-{}-", pid)))
      names.insert(name);
  return names;
}

/// The devices and queues of the network that this process is in.
inline std::string network_state() {
  return run_iproute2({"ip", "-o", "link", "show"}) + run_iproute2({"tc", "qdisc", "show"});
}

/// What takes a fabric: skipped where none can be made, and nothing may be left of it.
class OnFabric : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fabric_lacks().empty()) GTEST_SKIP() << fabric_lacks();
    network_ = network_state();
    fds_ = open_fds();
  }
  void TearDown() override {
    if (IsSkipped()) return;
    EXPECT_EQ(left_by(::getpid()), std::set<std::string>{});
    EXPECT_EQ(network_state(), network_) << "the machine's own network is another";
    EXPECT_EQ(open_fds(), fds_);
  }

 private:
  static std::size_t open_fds() {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
    return count;
  }
  std::string network_;
  std::size_t fds_ = 0;
};

}  // namespace ddl::testing
