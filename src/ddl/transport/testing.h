#pragma once

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
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
#include "ddl/transport/builtin.h"
#include "ddl/transport/deadline.h"

// Groups of ranks for tests and benchmarks, as threads and as processes.

namespace ddl::testing {

/// Runs `body` for every rank on a thread of its own. What each rank failed with, by rank; empty where it did not.
using Outcomes = std::vector<std::optional<Error>>;
inline Outcomes run_ranks(int ranks, const std::function<void(Rendezvous&)>& body) {
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
  const auto registry = builtin_transports();
  return run_ranks(ranks, [&](Rendezvous& meeting) {
    const auto transport = registry.at(name).make(meeting, {Seconds{20}, "secret"});
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
      ++meeting.came;
      for (const auto deadline = deadline_after(timeout); meeting.came < size_; ::usleep(200))
        if (now() > deadline) throw Error(Code::timeout, "[forked] a rank did not come");
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
