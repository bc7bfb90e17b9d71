#pragma once

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/transport/builtin.h"
#include "ddl/transport/deadline.h"

// Groups of ranks for tests and benchmarks, as threads and as processes.

namespace ddl::testing {

/// What each rank failed with, by rank; empty where it did not.
using Outcomes = std::vector<std::optional<Error>>;

/// Ranks that a launcher started as processes: each runs the same tests, and takes part in them as one rank.
class LaunchedRanks {
 public:
  virtual ~LaunchedRanks() = default;
  virtual int most() const = 0;
  virtual std::vector<std::string> transports() const = 0;
  virtual Outcomes run(int ranks, const std::function<void(Rendezvous&)>& body) = 0;
  /// For some of the ranks of a run, called by those.
  virtual std::unique_ptr<Rendezvous> meeting_of(const std::vector<int>& ranks) = 0;
  /// The next of many zeros in memory of all; every process asks for the same ones in the same order.
  virtual std::atomic<int>& counter() = 0;
};
/// Set by a test program's main, before it registers tests.
inline LaunchedRanks* launched = nullptr;

/// Likewise: in place of those that stand by themselves, one with collectives of its own, whose ranks are threads.
inline std::string library_under_test;

/// Whether the library's own collectives are tested with the schedules.
inline bool native_under_test() { return launched != nullptr || !library_under_test.empty(); }
inline int most_ranks() { return launched != nullptr ? launched->most() : library_under_test.empty() ? 9 : 5; }
inline std::vector<std::string> transports_under_test() {
  if (!library_under_test.empty()) return {library_under_test};
  return launched != nullptr ? launched->transports() : self_standing_transports();
}

/// And inproc that copies as shm does: ThreadSanitizer knows memory by its address, and each rank of shm has the others' at its own.
inline std::vector<std::string> transports_and_staging_under_test() {
  auto all = transports_under_test();
  if (const auto inproc = std::find(all.begin(), all.end(), "inproc"); inproc != all.end()) all.insert(inproc + 1, "inproc[staged=on]");
  return all;
}

/// As tests may be called.
inline std::string test_name(const std::string& transport) {
  std::string name;
  for (const char each : transport) name += std::isalnum(static_cast<unsigned char>(each)) != 0 ? each : '_';
  return name;
}

/// Of these numbers of ranks those that there can be.
inline std::vector<int> possible(std::vector<int> ranks) {
  std::erase_if(ranks, [](int each) { return each > most_ranks(); });
  return ranks;
}

/// What ranks count together.
class Counter {
 public:
  Counter() : shared_(launched != nullptr ? launched->counter() : own_) {}
  int operator++() { return ++shared_; }
  operator int() const { return shared_.load(); }

 private:
  std::atomic<int> own_{0};
  std::atomic<int>& shared_;
};

/// std::latch for ranks of either kind.
class Latch {
 public:
  explicit Latch(int count) : count_(count) {}
  void count_down() { ++came_; }
  void wait() const {
    while (came_ < count_) ::usleep(1'000);
  }

 private:
  Counter came_;
  int count_;
};

/// Seats of a rendezvous of some ranks of a run.
class Meeting {
 public:
  explicit Meeting(std::vector<int> ranks) : ranks_(std::move(ranks)) {
    if (launched == nullptr) seats_ = in_process_rendezvous(static_cast<int>(ranks_.size()));
  }
  std::unique_ptr<Rendezvous> seat(std::size_t index) { return launched != nullptr ? launched->meeting_of(ranks_) : std::move(seats_[index]); }

 private:
  std::vector<int> ranks_;
  std::vector<std::unique_ptr<Rendezvous>> seats_;
};

/// Runs `body` for every rank, on a thread of its own where a launcher did not start them.
inline Outcomes run_ranks(int ranks, const std::function<void(Rendezvous&)>& body) {
  if (launched != nullptr) return launched->run(ranks, body);
  auto meeting = in_process_rendezvous(ranks);
  Outcomes outcomes(meeting.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < meeting.size(); ++rank)
    threads.emplace_back([&, rank] {
      try {
        body(*meeting[rank]);
      } catch (const Error& error) {
        outcomes[rank] = error;
      }
      meeting[rank].reset();  // so that nobody waits for a rank that has failed
    });
  for (auto& thread : threads) thread.join();
  return outcomes;
}

inline Outcomes run_transports(const std::string& name, int ranks, const std::function<void(Transport&)>& body) {
  const auto chosen = choose_transport(name, {Seconds{20}, "secret"});
  return run_ranks(ranks, [&](Rendezvous& meeting) {
    const auto transport = chosen.make(meeting, chosen.options);
    body(*transport);
  });
}

/// The first failure; empty where there is none.
inline std::string failure(const Outcomes& outcomes) {
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank)
    if (outcomes[rank])
      return fmt::format("rank {}: {}: {}", rank, ddl::name(outcomes[rank]->code()), outcomes[rank]->what());
  return {};
}

/// A rendezvous of processes that were forked after it was made: its words lie in memory that they share.
class ForkedTable {
 public:
  static constexpr int kRanks = 8;
  static constexpr int kMeetings = 8;

  ForkedTable() : words_(::mmap(nullptr, sizeof(Words), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    new (words_) Words;
  }
  ~ForkedTable() { ::munmap(words_, sizeof(Words)); }
  ForkedTable(const ForkedTable&) = delete;
  ForkedTable& operator=(const ForkedTable&) = delete;

  class Seat final : public Rendezvous {
   public:
    Seat(ForkedTable& table, int rank, int size) : table_(table), rank_(rank), size_(size) {}
    int rank() const override { return rank_; }
    int size() const override { return size_; }
    std::vector<std::string> exchange(const std::string& mine, Seconds timeout) override {
      auto& meeting = static_cast<Words*>(table_.words_)->meetings[at_++];
      std::snprintf(meeting.texts[rank_], sizeof meeting.texts[rank_], "%s", mine.c_str());
      meeting.seats[rank_] = true;
      ++meeting.came;
      for (const auto deadline = deadline_after(timeout); meeting.came < size_; ::usleep(200)) {
        if (now() < deadline) continue;
        std::vector<std::string> absent;
        for (int rank = 0; rank < size_; ++rank)
          if (!meeting.seats[rank]) absent.push_back(std::to_string(rank));
        throw Error(Code::timeout, fmt::format("[rendezvous] rank {} waited {}; rank {} did not come", rank_, to_string(timeout),
                                               join(absent, ", ")));
      }
      std::vector<std::string> all;
      for (int rank = 0; rank < size_; ++rank) all.emplace_back(meeting.texts[rank]);
      return all;
    }

   private:
    ForkedTable& table_;
    int rank_;
    int size_;
    int at_ = 0;
  };

 private:
  struct Meeting {
    std::atomic<int> came{0};
    std::atomic<bool> seats[kRanks] = {};
    char texts[kRanks][256] = {};
  };
  struct Words {
    Meeting meetings[kMeetings];
  };
  void* words_;
};

/// Forks a process that runs `body` and ends with 0, or with 1 where it threw. No thread may run in this one.
inline pid_t fork_rank(const std::function<void()>& body) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child != 0) return child;
  int status = 1;
  try {
    body();
    status = 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "forked rank: %s\n", error.what());
  }
  std::fflush(nullptr);
  ::_exit(status);
}

inline int status_of(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

inline std::span<const std::byte> bytes_of(const std::vector<std::byte>& data) { return data; }

/// Bytes that differ for every rank and place.
inline void fill(std::span<std::byte> data, int seed) {
  for (std::size_t i = 0; i < data.size(); ++i)
    data[i] = static_cast<std::byte>((i * 131 + (i >> 8) * 7 + static_cast<std::size_t>(seed) * 29) & 0xff);
}
inline std::vector<std::byte> pattern(std::size_t bytes, int seed) {
  std::vector<std::byte> data(bytes);
  fill(data, seed);
  return data;
}

}  // namespace ddl::testing
