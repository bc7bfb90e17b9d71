#include <arpa/inet.h>
#include <sys/socket.h>

#include <thread>
#include <tuple>

#include <gtest/gtest.h>

#include "ddl/collective/phases_testing.h"
#include "ddl/transport/unique_fd.h"

// A rank that is killed or stopped, in every phase: the others get an error that says who, in what, in time; and
// nothing is left of anyone. Ranks that MPI's launchers start go through the same phases: mpi_death_test.cpp.

namespace ddl {
namespace {

using testing::buffer_of;
using testing::Death;
using testing::Fate;
using testing::ForkedTable;
using testing::ones;
using testing::Phase;
using testing::reduce;
using testing::Scene;
using testing::Stage;
using testing::Strike;
using testing::Testimony;

constexpr Seconds kTimeout{1};
/// A machine that does much else may take so long beyond it.
constexpr double kMargin = 5;

bool listens(const std::string& place) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(place.substr(place.rfind(':') + 1))));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

std::vector<std::string> forked_transports() {
  if (!testing::library_under_test.empty()) return {testing::library_under_test};
  return {"shm", "tcp"};
}

std::vector<std::string> names_of(const std::vector<Phase>& phases) {
  std::vector<std::string> names;
  for (const auto& phase : phases) names.push_back(phase.name);
  return names;
}

Phase phase_of(const std::string& name) {
  for (const auto& phases : {testing::phases(), testing::phases_of_other_collectives()})
    for (const auto& each : phases)
      if (each.name == name) return each;
  throw Error(Code::not_found, name);
}

class PeerDeath : public ::testing::TestWithParam<std::tuple<std::string, std::string, std::vector<int>>> {};

std::string name_of(const ::testing::TestParamInfo<PeerDeath::ParamType>& test) {
  const auto& [transport, phase, victims] = test.param;
  return phase + "_" + transport;
}

void check(const Death& death, const Phase& phase, const Strike& strike) {
  SCOPED_TRACE(to_string(death));
  bool named = false;
  for (int rank = 0; rank < Scene::kRanks; ++rank) {
    if (rank == death.victim) continue;
    named |= testing::names(strike.of(rank).said, phase.called(death.victim), phase.connecting);
    EXPECT_EQ(objection(phase, death, strike.of(rank), strike.seconds_to_end(rank), kTimeout.value + kMargin), "") << "rank " << rank;
    if (const auto place = strike.place_of(rank); death.transport == "tcp" && !place.empty()) {
      EXPECT_FALSE(listens(place)) << "somebody listens at " << place;
    }
  }
  EXPECT_TRUE(named) << "nobody names the victim";
}

TEST_P(PeerDeath, IsNamedByAllOthersInTime) {
  const auto& [transport, phase_name, victims] = GetParam();
  const Phase phase = phase_of(phase_name);
  // The next is struck while the others wait for one that was stopped.
  std::vector<std::pair<Death, std::unique_ptr<Strike>>> strikes;
  for (const auto fate : {Fate::stopped, Fate::killed})
    for (const int victim : victims) {
      const Death death{transport, victim, fate};
      strikes.emplace_back(death, std::make_unique<Strike>(victim, fate, Seconds{kTimeout.value + 2 * kMargin}, [&](ForkedTable::Seat& seat, Scene& scene, Testimony& testimony) {
        Stage stage{seat, death, kTimeout, scene, testimony};
        phase.play(stage);
      }));
    }
  for (const auto& [death, strike] : strikes) strike->end();
  for (const auto& [death, strike] : strikes) check(death, phase, *strike);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child is left";
  EXPECT_EQ(testing::names_in_dev_shm(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Processes, PeerDeath,
                         ::testing::Combine(::testing::ValuesIn(forked_transports()), ::testing::ValuesIn(names_of(testing::phases())), ::testing::Values(std::vector{0, 1, 2})), name_of);

INSTANTIATE_TEST_SUITE_P(OtherCollectives, PeerDeath,
                         ::testing::Combine(::testing::ValuesIn(forked_transports()), ::testing::ValuesIn(names_of(testing::phases_of_other_collectives())), ::testing::Values(std::vector{1})),
                         name_of);

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
  for (const char* algorithm : {"ring", "direct", "tree", "halving-doubling"}) {
    std::vector<std::jthread> waiting;  // nearly all of the time
    for (const int victim : {0, 1, 2})
      for (const bool throws : {true, false}) waiting.emplace_back(expect_of_threads, algorithm, victim, throws);
  }
}

}  // namespace
}  // namespace ddl
