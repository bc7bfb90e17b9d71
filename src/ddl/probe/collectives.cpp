#include "ddl/probe/collectives.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "ddl/core/error.h"
#include "ddl/measure/clock.h"
#include "ddl/measure/memory.h"
#include "ddl/probe/expected.h"
#include "ddl/probe/limits.h"

namespace ddl {
namespace {

constexpr double kBlock = 300e-6;  ///< s that a block of repetitions should last at least
constexpr int kFewestBlocks = 7, kMostBlocks = 61;
constexpr std::int64_t kLeastSwept = std::int64_t{16} << 20;  ///< bytes, where the kernel does not say what caches hold

class RankProbe {
 public:
  RankProbe(Rendezvous& rendezvous, const ProbeSettings& settings, const ProbeEvents& events)
      : settings_(settings), events_(events),
        group_(made(settings, rendezvous), {settings.timeout, settings.hosts, {}}) {
    std::size_t largest = 64;
    for (const auto& each : settings.cases) largest = std::max(largest, each.bytes);
    auto& transport = group_.transport();
    words_ = transport.allocate(64);
    if (settings.memory != "outside") {
      data_ = as_floats(transport.allocate(largest));
      other_ = as_floats(transport.allocate(largest));
    } else {
      heap_.resize(2 * largest / sizeof(float));
      data_ = std::span(heap_).first(largest / sizeof(float));
      other_ = std::span(heap_).last(largest / sizeof(float));
    }
  }

  void run() {
    std::map<std::size_t, std::vector<std::size_t>> by_size;
    for (std::size_t i = 0; i < settings_.cases.size(); ++i) by_size[settings_.cases[i].bytes].push_back(i);
    if (events_.joined) events_.joined(group_.transport().shares_memory());
    if (settings_.check)
      for (std::size_t i = 0; i < settings_.cases.size(); ++i) {
        const auto bytes = check(settings_.cases[i]);
        if (events_.sent) events_.sent(i, bytes);
      }
    for (const auto& [bytes, numbers] : by_size) {
      limits(bytes);
      time(numbers);
    }
    group_.barrier().wait();
  }

 private:
  static std::unique_ptr<Transport> made(const ProbeSettings& settings, Rendezvous& rendezvous) {
    const auto chosen = choose_transport(settings.transport, settings.enter ? settings.enter(rendezvous.rank()) : settings.options);
    return chosen.make(rendezvous, chosen.options);
  }
  static std::span<float> as_floats(std::span<std::byte> bytes) { return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)}; }

  Collective asked(const ProbeCase& which, int root) const {
    Collective what{which.goal, ReduceOp::sum, which.algorithm};
    what.root = root;
    what.peer = which.goal == Goal::point_to_point ? 1 - root : 0;
    return what;
  }

  bool takes_part(const ProbeCase& which) const { return which.goal != Goal::point_to_point || group_.rank() < 2; }

  void once(const ProbeCase& which, int root) {
    if (!takes_part(which)) return;
    const std::size_t elements = which.goal == Goal::barrier ? 0 : which.bytes / sizeof(float);
    group_.run(asked(which, root), {reinterpret_cast<std::byte*>(data_.data()), elements, ElementType::fp32});
  }

  /// The root of the n-th repetition: it wanders, so that the next one cannot begin before this one has come there.
  int root_of(const ProbeCase& which, int repetition) const {
    if (!has_root(which.goal)) return 0;
    return repetition % (which.goal == Goal::point_to_point ? 2 : group_.size());
  }

  /// Returns what this rank sent as root 0's follower, or as root 0.
  std::int64_t check(const ProbeCase& which) {
    std::int64_t bytes = 0;
    const auto buffer = data_.first(which.bytes / sizeof(float));
    for (int repetition = 0; repetition < 2; ++repetition) {
      const int root = root_of(which, repetition);
      fill_for_check(buffer, group_.rank());
      group_.barrier().wait();
      const auto before = group_.transport().traffic().sent;
      once(which, root);
      if (repetition == 0) bytes = group_.transport().traffic().sent - before;
      CollectiveShape shape{group_.size(), buffer.size(), root, 1 - root};
      if (const auto wrong = check_result(buffer, which.goal, shape, group_.rank()))
        throw Error(Code::corrupt, fmt::format("[probe] {} {} of {} bytes over {} gave a wrong result: {}", name(which.goal), which.algorithm, which.bytes,
                                               settings_.transport, *wrong));
    }
    group_.barrier().wait();
    return bytes;
  }

  void limits(std::size_t bytes) {
    constexpr int kTries = 7;
    const auto data = std::as_writable_bytes(data_).first(bytes);
    const auto other = std::as_writable_bytes(other_).first(bytes);
    const bool fresh = bytes >= kFreshFrom;
    std::fill(data_.begin(), data_.end(), 0.0F);
    group_.barrier().wait();
    ProbeLimits measured;
    try {
      measured.exchange = exchange_limit(group_, data, other, fresh, kTries, settings_.timeout);
      measured.one_way = one_way_limit(group_, data, other, fresh, kTries, settings_.timeout);
      if (settings_.memory != "outside") measured.reduce = reduce_limit(group_, data, words_, fresh, kTries, settings_.timeout);
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("[limits of {}] {}", to_string(Bytes{static_cast<std::int64_t>(bytes)}), error.what()));
    }
    if (events_.limit) events_.limit(bytes, measured);
  }

  bool evicts() const { return settings_.memory == "evicted"; }

  /// Passes over more than all ranks' caches hold, reading and writing, so that what was there before lies in memory.
  void evict() {
    if (sweep_.empty()) sweep_.resize(static_cast<std::size_t>(2 * std::max(last_level_cache_bytes(), kLeastSwept)) / sizeof(float));
    for (auto& value : sweep_) value += 1;
  }

  double block(const ProbeCase& which, int repetitions) {
    if (which.bytes >= kFreshFrom || evicts()) {
      double spent = 0;
      for (int k = 0; k < repetitions; ++k) {
        std::fill_n(data_.begin(), which.bytes / sizeof(float), 0.0F);
        if (evicts()) evict();
        group_.run({Goal::barrier}, {});
        const auto begin = now();
        once(which, root_of(which, k));
        spent += seconds(now() - begin);
      }
      return spent / repetitions;
    }
    group_.barrier().wait();
    const auto begin = now();
    for (int k = 0; k < repetitions; ++k) once(which, root_of(which, k));
    return seconds(now() - begin) / repetitions;
  }

  /// Rank 0's number for everyone.
  int agree(int number) {
    std::int64_t shared = number;
    group_.broadcast({reinterpret_cast<std::byte*>(&shared), 1, ElementType::int64}, 0).wait();
    return static_cast<int>(shared);
  }

  void time(const std::vector<std::size_t>& numbers) {
    // Sums of zeros stay zeros, however often, and cost what others cost.
    std::fill(data_.begin(), data_.end(), 0.0F);
    std::vector<int> repetitions, blocks;
    for (const auto number : numbers) {
      block(settings_.cases[number], 3);
      const auto begun = now();
      double one = block(settings_.cases[number], 5);
      // Each repetition has a sweep of its own, beside which it takes next to nothing: then the budget is for both, and one is timed by itself.
      const double whole = seconds(now() - begun) / 5;
      // A whole number of turns of the root.
      const int wanted = evicts() ? 1 : static_cast<int>(std::clamp(std::ceil(kBlock / std::max(one, 1e-9)), 1.0, 20'000.0));
      if (evicts()) one = whole;
      repetitions.push_back(agree(has_root(settings_.cases[number].goal) ? (wanted + group_.size() - 1) / group_.size() * group_.size() : wanted));
      blocks.push_back(agree(std::clamp(static_cast<int>(settings_.budget.value / std::max(one * repetitions.back(), 1e-9)), kFewestBlocks, kMostBlocks)));
    }
    std::vector<ProbeTimes> times(numbers.size());
    const int most = blocks.empty() ? 0 : *std::max_element(blocks.begin(), blocks.end());
    for (int turn = 0; turn < most; ++turn)
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        const std::size_t which = turn % 2 == 0 ? i : numbers.size() - 1 - i;
        if (turn < blocks[which]) times[which].push_back(block(settings_.cases[numbers[which]], repetitions[which]));
      }
    for (std::size_t i = 0; i < numbers.size(); ++i) events_.timed(numbers[i], times[i]);
  }

  const ProbeSettings& settings_;
  const ProbeEvents& events_;
  Communicator group_;
  std::vector<float> heap_, sweep_;
  std::span<float> data_, other_;
  std::span<std::byte> words_;
};

}  // namespace

void probe_rank(Rendezvous& rendezvous, const ProbeSettings& settings, const ProbeEvents& events) {
  RankProbe(rendezvous, settings, events).run();
}

}  // namespace ddl
