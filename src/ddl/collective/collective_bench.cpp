#include <benchmark/benchmark.h>

#include <algorithm>

#include "ddl/collective/communicator.h"
#include "ddl/transport/testing.h"

// Two ranks, fp32 sums, in place, in allocate()'s memory; microseconds per all-reduce as the median over short blocks.
// Rank 0 is the benchmark's; the other is a thread (inproc) or a forked process (shm, tcp), told by a broadcast what to do.

namespace ddl {
namespace {

constexpr std::size_t kLargest = std::size_t{32} << 20;

struct Group {
  std::unique_ptr<Communicator> communicator;
  std::byte* data = nullptr;
};

Group join(const std::string& transport, Rendezvous& meeting) {
  Group group;
  auto wire = builtin_transports().at(transport).make(meeting, {Seconds{20}, "bench"});
  group.communicator = std::make_unique<Communicator>(std::move(wire), Seconds{60});
  group.data = group.communicator->transport().allocate(kLargest).data();
  return group;
}

void all_reduce(Group& group, std::size_t bytes, Start start, std::string_view algorithm) {
  group.communicator->all_reduce({group.data, bytes / 4, ElementType::fp32}, ReduceOp::sum, algorithm, start).wait();
}

/// The other rank: follows a broadcast that says how many, of which size, and how.
struct Command {
  std::int64_t count;
  std::int64_t bytes;
  std::int64_t at_wait;
  std::int64_t ring;
};

bool command(Group& group, Command& what) {
  group.communicator->broadcast({reinterpret_cast<std::byte*>(&what), sizeof what / 8, ElementType::int64}, 0).wait();
  return what.count != 0;
}

void repeat(Group& group, const Command& what, std::vector<double>* blocks) {
  const auto start = what.at_wait != 0 ? Start::at_wait : Start::now;
  const std::int64_t block = what.bytes <= 65536 ? 50 : 1;
  for (std::int64_t done = 0; done < what.count; done += block) {
    const auto begin = now();
    for (std::int64_t i = 0; i < block; ++i)
      all_reduce(group, static_cast<std::size_t>(what.bytes), start, what.ring != 0 ? "ring" : "direct");
    if (blocks != nullptr) blocks->push_back(seconds(now() - begin) * 1e6 / static_cast<double>(block));
  }
}

void follow(Group& group) {
  for (Command what{}; command(group, what);) repeat(group, what, nullptr);
}

void lead(benchmark::State& state, Group& group, Start start, bool ring) {
  Command what{0, state.range(0), start == Start::at_wait, ring};
  std::vector<double> blocks;
  for (auto _ : state) {
    what.count = std::max<std::int64_t>(20, std::min<std::int64_t>(5000, (std::int64_t{64} << 20) / what.bytes));
    command(group, what);
    repeat(group, what, &blocks);
    if (blocks.size() > 100'000) blocks.clear();
  }
  std::sort(blocks.begin(), blocks.end());
  state.counters["median_us"] = blocks[blocks.size() / 2];
  state.counters["best_us"] = blocks.front();
}

void register_benchmarks(const std::string& transport, Group& group) {
  for (const auto& [name, start] : {std::pair{"", Start::now}, std::pair{"/at_wait", Start::at_wait}})
    // With two ranks the algorithms differ only in who reduces what.
    benchmark::RegisterBenchmark(
        (transport + name).c_str(),
        [&group, start = start, ring = transport == "tcp"](benchmark::State& state) { lead(state, group, start, ring); })
        ->ArgsProduct({{1 << 10, 64 << 10, 512 << 10, 4 << 20, 32 << 20}})
        ->Iterations(3)
        ->Unit(benchmark::kMillisecond);
}

void finish(Group& group) {
  Command end{0, 0, 0, 0};
  command(group, end);
}

}  // namespace
}  // namespace ddl

int main(int argc, char** argv) {
  using namespace ddl;
  using ddl::testing::ForkedTable;
  benchmark::Initialize(&argc, argv);
  // Processes first: none may be forked once there are threads.
  const std::vector<std::string> forked{"shm", "tcp"};
  std::vector<std::unique_ptr<ForkedTable>> tables;
  std::vector<pid_t> others;
  for (const auto& transport : forked) {
    auto& table = *tables.emplace_back(std::make_unique<ForkedTable>());
    others.push_back(ddl::testing::fork_rank([&] {
      ForkedTable::Seat seat(table, 1, 2);
      auto group = join(transport, seat);
      follow(group);
    }));
  }
  std::vector<Group> groups(forked.size() + 1);
  for (std::size_t i = 0; i < forked.size(); ++i) {
    ForkedTable::Seat seat(*tables[i], 0, 2);
    groups[i] = join(forked[i], seat);
    register_benchmarks(forked[i], groups[i]);
  }
  auto meeting = in_process_rendezvous(2);
  std::thread other([&] {
    auto group = join("inproc", *meeting[1]);
    follow(group);
  });
  groups.back() = join("inproc", *meeting[0]);
  register_benchmarks("inproc", groups.back());

  benchmark::RunSpecifiedBenchmarks();

  for (auto& group : groups) finish(group);
  other.join();
  for (const pid_t child : others) ddl::testing::status_of(child);
  return 0;
}
