#include "ddl/probe/limits.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <vector>

#include "ddl/collective/reduce.h"
#include "ddl/transport/cores.h"

namespace ddl {
namespace {

constexpr Seconds kTimeout{30};

/// Ranks that look for each other's word, each on lines of its own.
class LookingBarrier {
 public:
  LookingBarrier(Transport& transport, std::span<std::byte> words) : transport_(transport), all_(static_cast<std::size_t>(transport.size())) {
    transport.share(words, 1, all_, kTimeout, {});
    at_ = word(transport.rank()).load();
    yields_ = spin_for(transport.size()) < 10'000;
  }
  ~LookingBarrier() { transport_.unshare(kTimeout); }

  void meet() {
    word(transport_.rank()).store(++at_, std::memory_order_release);
    for (int rank = 0; rank < transport_.size(); ++rank)
      while (word(rank).load(std::memory_order_acquire) < at_)
        if (yields_)
          ::sched_yield();
        else
          pause();
  }

 private:
  std::atomic_ref<std::uint64_t> word(int rank) { return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(all_[static_cast<std::size_t>(rank)].data)); }

  Transport& transport_;
  std::vector<Shared> all_;
  std::uint64_t at_ = 0;
  bool yields_ = false;
};

}  // namespace

double exchange_limit(Communicator& group, std::span<const std::byte> from, std::span<std::byte> to, std::size_t bytes, int tries) {
  auto& transport = group.transport();
  const int ranks = transport.size(), right = (transport.rank() + 1) % ranks, left = (transport.rank() + ranks - 1) % ranks;
  double least = std::numeric_limits<double>::infinity();
  const Outgoing outgoing{right, from.first(bytes)};
  const Incoming incoming{left, bytes, to.data(), {}};
  const int repetitions = bytes <= (std::size_t{64} << 10) ? 100 : 1;
  for (int i = 0; i < tries; ++i) {
    const auto begin = now();
    for (int k = 0; k < repetitions; ++k) transport.exchange({&outgoing, 1}, {&incoming, 1}, kTimeout);
    least = std::min(least, seconds(now() - begin) / repetitions);
  }
  return least;
}

double reduce_limit(Communicator& group, std::span<std::byte> data, std::span<std::byte> words, std::size_t bytes, int tries) {
  auto& transport = group.transport();
  if (!transport.shares_memory()) return -1;
  const auto ranks = static_cast<std::size_t>(transport.size());
  std::vector<Shared> all(ranks);
  transport.share(data, 1, all, kTimeout, {});
  std::vector<std::byte*> places;
  const Range mine = part_of(bytes / 4, transport.size(), transport.rank());
  for (const auto& each : all) places.push_back(each.data + mine.begin * 4);
  transport.unshare(kTimeout);
  LookingBarrier barrier(transport, words);
  const int repetitions = bytes <= (std::size_t{64} << 10) ? 100 : 1;
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < tries; ++i) {
    barrier.meet();
    const auto begin = now();
    for (int k = 0; k < repetitions; ++k) {
      barrier.meet();
      reduce_all(ReduceOp::sum, ElementType::fp32, places.data(), nullptr, static_cast<int>(ranks), nullptr, mine.size(), 1);
      barrier.meet();
    }
    least = std::min(least, seconds(now() - begin) / repetitions);
  }
  return least;
}

}  // namespace ddl
