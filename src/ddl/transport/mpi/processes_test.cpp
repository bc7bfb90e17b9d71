#include "ddl/transport/mpi/processes.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "ddl/transport/testing.h"

namespace ddl {
namespace {

using State = RankProcesses::State;

/// A child that holds so much memory and sleeps, and a pipe's worth of what it says of itself.
struct Child {
  explicit Child(std::size_t bytes = 0) {
    int ends[2];
    if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
    pid = testing::fork_rank([&] {
      const std::vector<char> memory(bytes, 1);
      const auto text = RankProcesses::mine();
      if (::write(ends[1], text.data(), text.size()) < 0) ::_exit(1);
      for (;;) ::pause();
    });
    char text[256] = {};
    if (::read(ends[0], text, sizeof text - 1) > 0) said = text;
    ::close(ends[0]);
    ::close(ends[1]);
  }
  ~Child() { strike(SIGKILL), testing::status_of(pid); }
  void strike(int signal) const { ::kill(pid, signal); }
  pid_t pid = 0;
  std::string said;
};

/// Waits until it is so, for some seconds.
bool becomes(const RankProcesses& processes, int rank, State state) {
  for (int i = 0; i < 5'000 && processes.state(rank) != state; ++i) ::usleep(1'000);
  return processes.state(rank) == state;
}

TEST(RankProcesses, SeeWhoIsStoppedAndWhoHasEnded) {
  const Child stopped, killed;
  const RankProcesses processes({RankProcesses::mine(), stopped.said, killed.said, "another/machine 1", "nonsense"});
  for (int rank = 0; rank < 6; ++rank) EXPECT_EQ(processes.state(rank), State::runs) << rank;
  stopped.strike(SIGSTOP);
  killed.strike(SIGKILL);  // a zombie until somebody asks: it has ended
  EXPECT_TRUE(becomes(processes, 1, State::stopped));
  EXPECT_TRUE(becomes(processes, 2, State::ended));
  EXPECT_FALSE(processes.ended(1));
  for (int i = 0; i < 5'000 && !processes.ended(2); ++i) ::usleep(1'000);  // it ends for those who wait some time after it began to
  EXPECT_TRUE(processes.ended(2));
  stopped.strike(SIGCONT);
  EXPECT_TRUE(becomes(processes, 1, State::runs));
  for (const int rank : {0, 3, 4, 5, -1}) EXPECT_EQ(processes.state(rank), State::runs) << rank;
}

TEST(RankProcesses, ReadTheKernelsLines) {
  const auto line = [](const char* state, unsigned flags) { return "71 (a) b) " + std::string(state) + " 1 71 71 0 -1 " + std::to_string(flags) + " 0 0"; };
  EXPECT_EQ(RankProcesses::state_in(line("S", 0x400000)), State::runs);
  EXPECT_EQ(RankProcesses::state_in(line("R", 0x400004)), State::ended);  // killed, and giving its memory back
  EXPECT_EQ(RankProcesses::state_in(line("T", 0x400000)), State::stopped);
  EXPECT_EQ(RankProcesses::state_in(line("Z", 0x400000)), State::ended);
  EXPECT_EQ(RankProcesses::state_in(""), State::runs);
  EXPECT_EQ(RankProcesses::state_in("71 (a)"), State::runs);
}

/// Memory that takes long to be given back: the process ends for those who wait long after it was killed.
TEST(RankProcesses, SeeWhoIsStillGivingItsMemoryBack) {
  bool seen = false;
  // This process may sleep through the moment.
  for (int attempt = 0; attempt < 20 && !seen; ++attempt) {
    const Child child(std::size_t{512} << 20);
    const RankProcesses processes({child.said});
    child.strike(SIGKILL);
    for (bool ended = false; !ended && !seen;) {
      const bool ending = processes.state(0) == State::ended;
      ended = processes.ended(0);
      seen = ending && !ended;
    }
  }
  EXPECT_TRUE(seen);
}

TEST(RankProcesses, SeeWhoHadEndedBefore) {
  std::string said;
  {
    const Child child;
    said = child.said;
  }
  EXPECT_EQ(RankProcesses({said}).state(0), State::ended);
}

}  // namespace
}  // namespace ddl
