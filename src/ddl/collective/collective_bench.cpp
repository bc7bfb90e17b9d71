#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <algorithm>

#include "ddl/collective/communicator.h"
#include "ddl/transport/testing.h"

// Two ranks, fp32 sums, in place, in allocate()'s memory; microseconds per all-reduce as the median over short blocks.
// Rank 0 is the benchmark's; the other is a thread (inproc) or a forked process (shm, tcp), told each time how often.

namespace ddl {
namespace {

struct Order {
  std::atomic<std::int64_t> rounds{0};  // collectives wanted so far; negative: end
};

constexpr std::size_t kLargest = std::size_t{32} << 20;

struct Group {
  std::unique_ptr<Communicator> communicator;
  std::byte* data = nullptr;
};

Group join(const std::string& transport, Rendezvous& meeting) {
  Group group;
  group.communicator = std::make_unique<Communicator>(builtin_transports().at(transport).make(meeting, {Seconds{20}, "bench"}), Seconds{60});
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
  Command what{0, state.range(0), start == Start::at_wait ? 1 : 0, ring ? 1 : 0};
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

void measure(int argc, char** argv, const std::string& transport, Group& group) {
  for (const auto& [name, start] : {std::pair{"", Start::now}, std::pair{"/at_wait", Start::at_wait}})
    for (const bool ring : {false, true}) {
      // With two ranks the algorithms are the same but for who reduces what.
      if (ring != (transport == "tcp")) continue;
      benchmark::RegisterBenchmark((transport + name).c_str(), [&group, start = start, ring](benchmark::State& state) {
        lead(state, group, start, ring);
      })->RangeMultiplier(8)->Range(1024, static_cast<std::int64_t>(kLargest))->Iterations(3)->Unit(benchmark::kMillisecond);
    }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::ClearRegisteredBenchmarks();
}

void finish(Group& group) {
  Command end{0, 0, 0, 0};
  command(group, end);
}

}  // namespace
}  // namespace ddl

int main(int argc, char** argv) {
  using namespace ddl;
  for (const std::string transport : {"shm", "tcp"}) {
    ddl::testing::ForkedTable table;
    const pid_t other = ddl::testing::fork_rank([&] {
      ddl::testing::ForkedTable::Seat seat(table, 1, 2);
      auto group = join(transport, seat);
      follow(group);
    });
    ddl::testing::ForkedTable::Seat seat(table, 0, 2);
    auto group = join(transport, seat);
    measure(argc, argv, transport, group);
    finish(group);
    ddl::testing::status_of(other);
  }
  const auto outcomes = ddl::testing::run_ranks(2, [&](Rendezvous& meeting) {
    auto group = join("inproc", meeting);
    if (meeting.rank() == 0) {
      measure(argc, argv, "inproc", group);
      finish(group);
    } else {
      follow(group);
    }
  });
  std::fputs(ddl::testing::failure(outcomes).c_str(), stderr);
  return 0;
}
