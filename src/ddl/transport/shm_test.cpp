#include "ddl/transport/shm.h"

#include <signal.h>

#include <filesystem>

#include <gtest/gtest.h>

#include "ddl/transport/testing.h"

namespace ddl {
namespace {

using testing::ForkedTable;
using testing::fork_rank;
using testing::pattern;
using testing::status_of;

std::size_t names_in_dev_shm() {
  std::error_code unreadable;
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", unreadable))
    count += entry.path().filename().string().find("ddl") != std::string::npos ? 1 : 0;
  return count;
}

TEST(Shm, MovesMessagesBetweenProcesses) {
  constexpr int kRanks = 3;
  ForkedTable table;
  std::vector<pid_t> children;
  for (int rank = 0; rank < kRanks; ++rank)
    children.push_back(fork_rank([&, rank] {
      ForkedTable::Seat seat(table, rank, kRanks);
      const auto transport = make_shm(seat, {});
      for (const bool own_memory : {true, false})
        for (const std::size_t bytes : {0UL, 5UL, 3'000'001UL}) {
          auto content = pattern(bytes, rank);
          std::span<std::byte> data = content;
          if (own_memory) {
            data = transport->allocate(bytes);
            std::copy(content.begin(), content.end(), data.begin());
          }
          const int before = (rank + kRanks - 1) % kRanks;
          std::vector<std::byte> into(bytes + 1);
          const Outgoing out{(rank + 1) % kRanks, data};
          const Incoming in{before, bytes, into.data(), {}};
          transport->exchange({&out, 1}, {&in, 1}, Seconds{20});
          into.pop_back();
          if (into != pattern(bytes, before)) throw Error(Code::corrupt, "content");
        }
    }));
  for (const pid_t child : children) EXPECT_EQ(status_of(child), 0);
  EXPECT_EQ(names_in_dev_shm(), 0U);
}

/// Rank 1 is killed without warning while rank 0 exchanges with it.
void kill_a_peer(bool while_it_sends) {
  ForkedTable table;
  const pid_t victim = fork_rank([&] {
    ForkedTable::Seat seat(table, 1, 2);
    const auto transport = make_shm(seat, {});
    if (while_it_sends) {
      const Outgoing out{0, {}};
      transport->exchange({&out, 1}, {}, Seconds{20});
    }
    ::pause();
  });
  const pid_t survivor = fork_rank([&] {
    ForkedTable::Seat seat(table, 0, 2);
    const auto transport = make_shm(seat, {});
    std::byte byte{};
    const Incoming in{1, 1, &byte, {}};
    if (while_it_sends) {
      const Incoming first{1, 0, nullptr, {}};
      transport->exchange({}, {&first, 1}, Seconds{20});
    }
    const pid_t killer = fork_rank([&] {
      ::usleep(50'000);
      ::kill(victim, SIGKILL);
    });
    const auto begin = now();
    bool lost = false;
    try {
      transport->exchange({}, {&in, 1}, Seconds{20});
    } catch (const Error& error) {
      lost = error.code() == Code::peer_lost && std::string(error.what()) == "[shm] rank 0 lost rank 1: it no longer runs";
      if (!lost) std::fprintf(stderr, "%s\n", error.what());
    }
    status_of(killer);
    if (!lost || seconds(now() - begin) > 2) throw Error(Code::corrupt, "did not notice in time");
  });
  EXPECT_EQ(status_of(survivor), 0);
  const int status = status_of(victim);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  EXPECT_EQ(names_in_dev_shm(), 0U);
}

// The victim is a zombie until the test reaps it, so that "it has no process number" would not notice.
TEST(Shm, NoticesAKilledPeerAndLeavesNothing) { kill_a_peer(false); }
TEST(Shm, NoticesAPeerKilledBetweenMessages) { kill_a_peer(true); }

}  // namespace
}  // namespace ddl
