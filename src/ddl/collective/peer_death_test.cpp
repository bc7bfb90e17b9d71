#include <arpa/inet.h>
#include <sys/socket.h>

#include <tuple>

#include <gtest/gtest.h>

#include "ddl/collective/victim_testing.h"
#include "ddl/transport/unique_fd.h"

// A rank that is killed or stopped, in every phase: the others get an error that says who, in what, in time; and
// nothing is left of anyone.

namespace ddl {
namespace {

using testing::buffer_of;
using testing::Fate;
using testing::ForkedTable;
using testing::Scene;
using testing::Strike;
using testing::Testimony;

constexpr Seconds kTimeout{1};
/// A machine that does much else may take so long beyond it.
constexpr double kMargin = 5;

/// What the ranks do; `victim` is for the one it is about.
using Phase = std::function<void(Communicator& group, int victim, Scene& scene, Testimony& testimony)>;

std::vector<float> ones(std::size_t elements) { return std::vector<float>(elements, 1); }

void reduce(Communicator& group, std::vector<float>& values, std::string_view algorithm) {
  group.run({Goal::all_reduce, ReduceOp::sum, algorithm}, buffer_of(std::span(values)));
}

/// All are connected, and end with what they use.
void connected(ForkedTable::Seat& seat, const std::string& transport, const std::function<void(Communicator&)>& body) {
  auto wire = builtin_transports().at(transport).make(seat, {kTimeout, "secret"});
  Communicator group(std::move(wire), kTimeout);
  body(group);
}

struct Death {
  std::string transport;
  int victim;
  Fate fate;
};

std::string to_string(const Death& death) {
  return fmt::format("{}_rank_{}_{}", death.transport, death.victim, death.fate == Fate::killed ? "killed" : "stopped");
}

std::size_t names_in_dev_shm() {
  std::error_code unreadable;
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", unreadable))
    count += entry.path().filename().string().find("ddl") != std::string::npos ? 1 : 0;
  return count;
}

/// Whether it says that `rank` is gone, and no other. Ranks that still connect may lose one more: who found out before us.
bool names(const std::string& said, int rank, bool others_too) {
  const auto says = [&](const std::string& text) { return said.find(text) != std::string::npos; };
  if (says(fmt::format(" lost rank {}:", rank)) || says(fmt::format("cannot reach rank {} ", rank)) ||
      says(fmt::format("; rank {} did not come", rank)))
    return true;
  return others_too && (says(fmt::format(", {} did not come", rank)) || says(fmt::format("; rank {}, ", rank)) ||
                        says(fmt::format(" lost rank {}, ", rank)) || says(fmt::format(", {}: no such process", rank)));
}

class PeerDeath : public ::testing::TestWithParam<std::tuple<std::string, int, Fate>> {
 protected:
  Death death() const { return {std::get<0>(GetParam()), std::get<1>(GetParam()), std::get<2>(GetParam())}; }

  /// The others fail, in time, saying `who` (of the victim's number) and what `words` make of the testimony.
  void expect(const Strike::Body& body, const std::function<std::string(const Testimony&)>& words, bool before_connected = false,
              int called = -1) {
    const auto [transport, victim, fate] = death();
    const Strike strike(victim, fate, {kTimeout.value + 2 * kMargin}, body);
    const int name = called < 0 ? victim : called;
    for (int rank = 0; rank < Scene::kRanks; ++rank) {
      if (rank == victim) continue;
      const auto& testimony = strike.of(rank);
      ASSERT_NE(testimony.ended, 0) << "rank " << rank << " did not end";
      ASSERT_TRUE(testimony.failed) << "rank " << rank << " noticed nothing";
      const std::string said = testimony.said;
      if (fate == Fate::killed && !before_connected)
        EXPECT_EQ(testimony.code, Code::peer_lost) << said;
      else
        EXPECT_TRUE(testimony.code == Code::timeout || (testimony.code == Code::peer_lost && before_connected)) << ddl::name(testimony.code) << ": " << said;
      const auto says = [&](const std::string& text) { return said.find(text) != std::string::npos; };
      EXPECT_TRUE(names(said, name, before_connected)) << "rank " << rank << ": " << said;
      EXPECT_TRUE(says(words(testimony))) << "rank " << rank << ": " << said << "\n expected " << words(testimony);
      EXPECT_LT(strike.seconds_to_end(rank), kTimeout.value + kMargin) << said;
      EXPECT_EQ(testimony.descriptors_left, 0);
    }
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child is left";
    EXPECT_EQ(names_in_dev_shm(), 0U);
  }

  /// The same, from when all are connected.
  void expect(const Phase& phase, const std::function<std::string(const Testimony&)>& words, int called = -1) {
    const auto [transport, victim, fate] = death();
    expect(
        [&](ForkedTable::Seat& seat, Scene& scene, Testimony& testimony) {
          connected(seat, transport, [&](Communicator& group) { phase(group, victim, scene, testimony); });
        },
        words, false, called);
  }

  /// Struck at any moment of a series of large ones: nearly all of the time is inside one.
  void expect_amid(const std::string& algorithm, bool own_memory) {
    static constexpr std::size_t kElements = 3'000'001;
    expect(
        [&](Communicator& group, int victim, Scene& scene, Testimony& testimony) {
          auto outside = ones(kElements);
          Buffer buffer = buffer_of(std::span(outside));
          if (own_memory) buffer.data = group.transport().allocate(kElements * sizeof(float)).data();
          for (;;) {
            group.run({Goal::all_reduce, ReduceOp::max, algorithm}, buffer);
            ++testimony.completed;
            if (group.rank() == victim && testimony.completed == 2) scene.ready = true;
          }
        },
        [&](const Testimony& testimony) {
          return fmt::format("[#{} all-reduce ({}, max) of {} fp32] ", testimony.completed + 1, algorithm, kElements);
        });
  }
};

TEST_P(PeerDeath, BeforeItJoins) {
  expect(
      [&](ForkedTable::Seat& seat, Scene& scene, Testimony&) {
        if (seat.rank() == death().victim) scene.die_here();
        connected(seat, death().transport, [](Communicator&) {});
      },
      [](const Testimony&) { return "rendezvous"; }, true);
}

TEST_P(PeerDeath, AfterItGaveItsAddress) {
  // What was listened at: nobody must after the ranks have ended.
  auto* places = static_cast<char(*)[64]>(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  expect(
      [&](ForkedTable::Seat& seat, Scene& scene, Testimony&) {
        testing::Watched watched(seat, [&](const std::vector<std::string>& all) {
          for (std::size_t rank = 0; rank < all.size(); ++rank) std::snprintf(places[rank], sizeof places[rank], "%s", all[rank].c_str());
          if (seat.rank() == death().victim) scene.die_here();
          // Not before the others act on it.
          while (death().fate == Fate::killed && scene.struck == 0) ::usleep(500);
        });
        builtin_transports().at(death().transport).make(watched, {kTimeout, "secret"});
      },
      [&](const Testimony&) { return fmt::format("[{}", death().transport == "shm" ? "" : "tcp] rank "); }, true);
  for (int rank = 0; death().transport == "tcp" && rank < Scene::kRanks; ++rank) {
    const std::string place = places[rank];
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(place.substr(place.rfind(':') + 1))));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_NE(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0) << "somebody listens at " << place;
  }
  ::munmap(places, 4096);
}

TEST_P(PeerDeath, BetweenCollectives) {
  expect(
      [](Communicator& group, int victim, Scene& scene, Testimony&) {
        auto values = ones(1024);
        reduce(group, values, "ring");
        reduce(group, values, "auto");
        if (group.rank() == victim) scene.die_here();
        reduce(group, values, "ring");
      },
      [](const Testimony&) { return "[#3 all-reduce (ring, sum) of 1024 fp32] "; });
}

TEST_P(PeerDeath, InALargeRing) { expect_amid("ring", false); }
TEST_P(PeerDeath, InALargeDirect) { expect_amid("direct", false); }
TEST_P(PeerDeath, InALargeDirectInPlace) { expect_amid("direct", true); }
TEST_P(PeerDeath, InALargeTree) { expect_amid("tree", false); }
TEST_P(PeerDeath, InALargeHalvingDoubling) { expect_amid("halving-doubling", true); }

TEST_P(PeerDeath, WithOthersQueued) {
  static constexpr std::size_t kElements = 500'000;
  expect(
      [](Communicator& group, int victim, Scene& scene, Testimony& testimony) {
        std::vector<std::vector<float>> values(6, ones(kElements));
        for (int round = 0;; ++round) {
          if (group.rank() == victim && round == 2) scene.ready = true;
          std::vector<Handle> handles;
          for (auto& each : values) handles.push_back(group.all_reduce(buffer_of(std::span(each)), ReduceOp::max, "ring"));
          std::optional<Error> first;
          for (const auto& handle : handles) try {
              handle.wait();
              if (first) throw Error(Code::corrupt, "one after it succeeded");
              ++testimony.completed;
            } catch (const Error& error) {
              if (first && error.code() != first->code()) throw;
              if (!first) first = error;
            }
          if (first) throw Error(*first);
        }
      },
      [](const Testimony& testimony) { return fmt::format("[#{} all-reduce (ring, max) of {} fp32] ", testimony.completed + 1, kElements); });
}

TEST_P(PeerDeath, InAGroupOfTheRanks) {
  const std::vector<int> members{2, 0, 1};
  const auto called = static_cast<int>(std::find(members.begin(), members.end(), death().victim) - members.begin());
  expect(
      [&](Communicator& all, int victim, Scene& scene, Testimony&) {
        const auto group = all.group(members);
        auto values = ones(4096);
        reduce(*group, values, "ring");
        if (all.rank() == victim) scene.die_here();
        reduce(*group, values, "ring");
      },
      [](const Testimony&) { return "[#2 all-reduce (ring, sum) of 4096 fp32 in the group of ranks 2, 0, 1] "; }, called);
}

TEST_P(PeerDeath, WhileAGroupIsMade) {
  expect(
      [](Communicator& all, int victim, Scene& scene, Testimony&) {
        all.barrier().wait();
        if (all.rank() == victim) scene.die_here();
        all.group({2, 0, 1});
      },
      [](const Testimony&) { return "[making the group of ranks 2, 0, 1] "; });
}

TEST_P(PeerDeath, WhileAGroupConnects) {
  const bool shared = death().transport == "shm";  // then there is nothing to connect, and its first collective notices
  expect(
      [&](ForkedTable::Seat& seat, Scene& scene, Testimony&) {
        const auto wire = builtin_transports().at(death().transport).make(seat, {kTimeout, "secret"});
        testing::Watched watched(seat, [&](const std::vector<std::string>&) {
          if (seat.rank() == death().victim) scene.die_here();
          while (death().fate == Fate::killed && scene.struck == 0) ::usleep(500);
        });
        Communicator group(wire->subgroup({0, 1, 2}, watched), kTimeout);
        group.barrier().wait();
      },
      [&](const Testimony&) { return shared ? "[#1 barrier (dissemination) of 0 fp32] [shm] rank " : "[tcp] rank "; }, true);
}

TEST_P(PeerDeath, InTheLastBarrier) {
  expect(
      [](Communicator& group, int victim, Scene& scene, Testimony&) {
        auto values = ones(1000);
        reduce(group, values, "auto");
        if (group.rank() == victim) scene.die_here();
        group.barrier().wait();
      },
      [](const Testimony&) { return "[#2 barrier (dissemination) of 0 fp32] "; });
}

INSTANTIATE_TEST_SUITE_P(Processes, PeerDeath,
                         ::testing::Combine(::testing::Values("shm", "tcp"), ::testing::Values(0, 1, 2),
                                            ::testing::Values(Fate::killed, Fate::stopped)),
                         [](const auto& test) {
                           return to_string(Death{std::get<0>(test.param), std::get<1>(test.param), std::get<2>(test.param)});
                         });

/// A thread cannot be killed; it can fail, and it can stay away.
void expect_of_threads(const std::string& algorithm, int victim, bool throws) {
  std::atomic<int> ended{0};
  const auto begin = now();
  const auto outcomes = testing::run_ranks(3, [&](Rendezvous& meeting) {
    Communicator group(builtin_transports().at("inproc").make(meeting, {kTimeout}), kTimeout);
    auto values = ones(100'000);
    reduce(group, values, algorithm);
    if (meeting.rank() == victim) {
      if (throws) throw Error(Code::io, "the disk is full");
      while (ended < 2) ::usleep(1'000);
      return;
    }
    struct End {
      std::atomic<int>& count;
      ~End() { ++count; }
    } end{ended};
    reduce(group, values, algorithm);
  });
  EXPECT_LT(seconds(now() - begin), kTimeout.value + kMargin);
  for (int rank = 0; rank < 3; ++rank) {
    if (rank == victim) continue;
    const auto& outcome = outcomes[static_cast<std::size_t>(rank)];
    ASSERT_TRUE(outcome) << rank;
    EXPECT_EQ(outcome->code(), throws ? Code::peer_lost : Code::timeout) << outcome->what();
    const std::string said = outcome->what();
    EXPECT_TRUE(said.starts_with(fmt::format("[#2 all-reduce ({}, sum) of 100000 fp32] ", algorithm))) << said;
    EXPECT_TRUE(said.find(fmt::format("{}rank {}{}", throws ? "lost " : "; ", victim, throws ? ":" : " did not come")) != std::string::npos) << rank << ": " << said;
  }
}

TEST(ThreadDeath, ThatStaysAwayOrFails) {
  for (const char* algorithm : {"ring", "direct", "tree", "halving-doubling"})
    for (const int victim : {0, 1, 2})
      for (const bool throws : {true, false}) expect_of_threads(algorithm, victim, throws);
}

}  // namespace
}  // namespace ddl
