#include "ddl/probe/limits.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <vector>

#include "ddl/collective/reduce.h"
#include "ddl/core/error.h"
#include "ddl/transport/cores.h"
#include "ddl/transport/deadline.h"

namespace ddl {
namespace {

/// Ranks that look for each other's word, each on lines of its own.
class LookingBarrier {
 public:
  LookingBarrier(Transport& transport, std::span<std::byte> words, Seconds timeout)
      : transport_(transport), timeout_(timeout), all_(static_cast<std::size_t>(transport.size())) {
    transport.share({words}, all_, timeout, {});
    at_ = word(transport.rank()).load();
    yields_ = spin_for(transport.size()) < 10'000;
  }

  void meet() {
    word(transport_.rank()).store(++at_, std::memory_order_release);
    for (int rank = 0; rank < transport_.size(); ++rank)
      if (word(rank).load(std::memory_order_acquire) < at_) wait_for(rank);
  }

  /// All ranks are done with the words. After an error there is nothing to end: the transport is of no use any more.
  void end() { transport_.unshare(timeout_); }

 private:
  /// The clock is asked now and then only: it costs more than a look.
  void wait_for(int rank) {
    const Nanoseconds deadline = deadline_after(timeout_);
    for (int looks = 1; word(rank).load(std::memory_order_acquire) < at_; ++looks) {
      yields_ ? static_cast<void>(::sched_yield()) : pause();
      if (looks % 1024 != 0 || now() < deadline) continue;
      const Error late(Code::timeout, fmt::format("[probe] rank {} waited {}; rank {} did not come", transport_.rank(), to_string(timeout_), rank));
      transport_.abandon(late);
      throw late;
    }
  }

  std::atomic_ref<std::uint64_t> word(int rank) { return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(all_[static_cast<std::size_t>(rank)].data)); }

  Transport& transport_;
  Seconds timeout_;
  std::vector<Shared> all_;
  std::uint64_t at_ = 0;
  bool yields_ = false;
};

/// Times `once` on ranks that have met through `meet`: `repetitions` in a row, or one by one on data written anew.
template <typename Meet, typename Once>
double least_of(std::span<std::byte> data, bool fresh, int tries, const Meet& meet, const Once& once) {
  const int repetitions = fresh ? 1 : 100;
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < tries; ++i) {
    if (fresh) std::fill(data.begin(), data.end(), std::byte{0});
    meet();
    const auto begin = now();
    for (int k = 0; k < repetitions; ++k) once();
    least = std::min(least, seconds(now() - begin) / repetitions);
  }
  return least;
}

}  // namespace

double exchange_limit(Communicator& group, std::span<std::byte> data, std::span<std::byte> into, bool fresh, int tries, Seconds timeout) {
  auto& transport = group.transport();
  const int ranks = transport.size(), right = (transport.rank() + 1) % ranks, left = (transport.rank() + ranks - 1) % ranks;
  const Outgoing outgoing{right, data};
  const Incoming incoming{left, data.size(), into.data(), {}};
  return least_of(data, fresh, tries, [&] { group.run({Goal::barrier}, {}); },
                  [&] { transport.exchange({&outgoing, 1}, {&incoming, 1}, timeout); });
}

double one_way_limit(Communicator& group, std::span<std::byte> data, std::span<std::byte> into, bool fresh, int tries, Seconds timeout) {
  auto& transport = group.transport();
  const int rank = transport.rank();
  const Outgoing outgoing{1 - rank, data};
  const Incoming incoming{1 - rank, data.size(), into.data(), {}};
  const double both = least_of(data, fresh, tries, [&] { group.run({Goal::barrier}, {}); }, [&] {
    for (const int from : {0, 1}) {
      if (rank > 1) continue;
      if (rank == from)
        transport.exchange({&outgoing, 1}, {}, timeout);
      else
        transport.exchange({}, {&incoming, 1}, timeout);
    }
  });
  return rank > 1 ? -1 : both / 2;
}

double reduce_limit(Communicator& group, std::span<std::byte> data, std::span<std::byte> words, bool fresh, int tries, Seconds timeout) {
  auto& transport = group.transport();
  if (!transport.shares_memory()) return -1;
  const auto ranks = static_cast<std::size_t>(transport.size());
  std::vector<Shared> all(ranks);
  transport.share({data}, all, timeout, {});
  std::vector<std::byte*> places;
  const Range mine = part_of(data.size() / 4, transport.size(), transport.rank());
  for (const auto& each : all) places.push_back(each.data + mine.begin * 4);
  transport.unshare(timeout);
  LookingBarrier barrier(transport, words, timeout);
  const double least = least_of(data, fresh, tries, [&] { barrier.meet(); }, [&] {
    barrier.meet();
    reduce_all(ReduceOp::sum, ElementType::fp32, places.data(), nullptr, static_cast<int>(ranks), mine.size(), 1);
    barrier.meet();
  });
  barrier.end();
  return least;
}

}  // namespace ddl
