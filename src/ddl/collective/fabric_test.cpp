#include "ddl/transport/fabric.h"

#include <gtest/gtest.h>

#include "ddl/collective/algorithms.h"
#include "ddl/collective/testing.h"
#include "ddl/transport/fabric_testing.h"
#include "ddl/transport/tcp.h"

// Collectives between hosts.

namespace ddl {
namespace {

using testing::buffer_of;
using testing::fork_rank;
using testing::ForkedTable;
using testing::require;
using testing::status_of;

class CollectiveOnFabric : public testing::OnFabric {};

/// Ranks in blocks of neighbours, as many on each host; their exit states.
std::vector<int> on_hosts(const Fabric& fabric, int on_each, Seconds timeout,
                          const std::function<void(Communicator&)>& body) {
  ForkedTable table;
  const int ranks = fabric.hosts() * on_each;
  std::vector<pid_t> processes;
  for (int rank = 0; rank < ranks; ++rank)
    processes.push_back(fork_rank([&, rank] {
      const int host = rank / on_each;
      CommunicatorOptions options{timeout};
      options.hosts.resize(static_cast<std::size_t>(ranks));
      for (int each = 0; each < ranks; ++each) options.hosts[static_cast<std::size_t>(each)] = each / on_each;
      fabric.enter(host);
      ForkedTable::Seat seat(table, rank, ranks);
      Communicator group(make_tcp(seat, fabric.options(host, {Seconds{30}, "secret"})), options);
      body(group);
    }));
  std::vector<int> states;
  for (const pid_t process : processes) states.push_back(status_of(process));
  return states;
}

void check_all_reduce(Communicator& group, std::string_view algorithm, std::size_t elements) {
  std::vector<float> values(elements);
  for (std::size_t i = 0; i < elements; ++i)
    values[i] = static_cast<float>((i % 1000) * static_cast<std::size_t>(group.rank() + 1));
  group.all_reduce(buffer_of(std::span(values)), ReduceOp::sum, algorithm).wait();
  const auto factor = static_cast<std::size_t>(group.size() * (group.size() + 1) / 2);
  for (std::size_t i = 0; i < elements; ++i)
    require(values[i] == static_cast<float>((i % 1000) * factor),
            fmt::format("{}: element {} is {}", algorithm, i, values[i]));
}

TEST_F(CollectiveOnFabric, AllReducesAreRight) {
  struct Case {
    std::string description;
    int on_each;
  };
  for (const auto& [description, on_each] :
       {Case{"hosts=2,bandwidth=1Gbps,latency=100us", 1}, Case{"hosts=4,bandwidth=1Gbps,latency=100us", 1},
        Case{"hosts=4", 2}, Case{"hosts=3,bandwidth=100Mbps", 1}}) {
    const Fabric fabric(description);
    const auto states = on_hosts(fabric, on_each, {30}, [](Communicator& group) {
      for (const auto* algorithm :
           {"auto", "ring", "recursive-doubling", "halving-doubling", "double-tree", "hierarchical", "direct"})
        for (const std::size_t elements : {1, 10'007, 300'000}) check_all_reduce(group, algorithm, elements);
    });
    EXPECT_EQ(states, std::vector<int>(states.size(), 0)) << description << " with " << on_each << " on each";
  }
}

/// Rank 2 is cut off by `pull` in the middle of an all-reduce: every rank must say so in time.
void pull_a_plug(const Fabric& fabric, const std::function<void()>& pull) {
  const auto states = on_hosts(fabric, 1, {2}, [&](Communicator& group) {
    std::vector<float> values(1 << 20, 1);
    for (int i = 0; i < 1000; ++i) {
      // In the middle of one, which takes about 50 ms.
      std::thread hand([&] {
        if (group.rank() != 0 || i != 3) return;
        ::usleep(20'000);
        pull();
      });
      const auto begin = now();
      std::string said;
      try {
        group.all_reduce(buffer_of(std::span(values)), ReduceOp::max, "ring").wait();
      } catch (const Error& error) {
        said = error.what();
        require(error.code() == Code::timeout || error.code() == Code::peer_lost, said);
      }
      hand.join();
      if (said.empty()) continue;
      require(seconds(now() - begin) < 4, fmt::format("after {} s: {}", seconds(now() - begin), said));
      // Rank 2 cannot know that it is the one, and misses a neighbour or both; everybody else hears who is missing, from its
      // neighbour on the ring.
      const auto names = [&](std::string_view ranks) { return said.find(fmt::format("; rank {} did not come", ranks)) != std::string::npos; };
      require(group.rank() == 2 ? names("1") || names("3") || names("1, 3") : names("2"), said);
      require(said.find("all-reduce (ring, max) of 1048576 fp32] ") != std::string::npos, said);
      return;
    }
    throw Error(Code::corrupt, "nobody missed the wire");
  });
  EXPECT_EQ(states, std::vector<int>(states.size(), 0));
}

TEST_F(CollectiveOnFabric, APulledPlugEndsAnAllReduceOnEveryRankInTime) {
  const Fabric fabric("hosts=4,bandwidth=1Gbps");
  pull_a_plug(fabric, [&] { fabric.set_wire(2, false); });
}

TEST_F(CollectiveOnFabric, AnInterfaceThatGoesDownDoes) {
  const Fabric fabric("hosts=4,bandwidth=1Gbps");
  pull_a_plug(fabric, [&] { run_iproute2({"ip", "-n", fabric.namespace_name(2), "link", "set", "eth0", "down"}); });
}

}  // namespace
}  // namespace ddl
