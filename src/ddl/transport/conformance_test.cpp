#include <cstdint>

#include <gtest/gtest.h>

#include "ddl/core/spec.h"
#include "ddl/transport/cores.h"
#include "ddl/transport/testing.h"

// What every transport must do. A new one is tested by being registered.

namespace ddl {
namespace {

using testing::failure;
using testing::pattern;
using testing::run_transports;

constexpr std::size_t kSizes[] = {0, 1, 7, 4097, 262144, (1 << 20) + 3};

void require(bool holds, const std::string& what) {
  if (!holds) throw Error(Code::corrupt, what);
}

/// A sink that keeps what it gets, and minds that pieces begin on whole elements and come with one factor.
struct Keep {
  std::vector<std::byte> data;
  bool orderly = true;
  double factor = 0;

  Sink sink() {
    return {[](void* context, std::size_t offset, std::span<const std::byte> piece, double theirs) {
              auto& self = *static_cast<Keep*>(context);
              self.orderly &= offset % 8 == 0 && !piece.empty() && (self.factor == 0 || self.factor == theirs);
              self.factor = theirs;
              if (self.data.size() < offset + piece.size()) self.data.resize(offset + piece.size());
              std::copy(piece.begin(), piece.end(), self.data.begin() + static_cast<std::ptrdiff_t>(offset));
            },
            this};
  }
};

class TransportConformance : public ::testing::TestWithParam<std::string> {};

TEST_P(TransportConformance, KnowsItsGroup) {
  const auto outcomes = run_transports(GetParam(), 3, [](Transport& transport) {
    require(transport.size() == 3 && transport.rank() >= 0 && transport.rank() < 3, "rank of size");
    transport.exchange({}, {}, Seconds{1});
  });
  EXPECT_EQ(failure(outcomes), "");
}

TEST_P(TransportConformance, MovesEverySizeBothWaysFromAnyMemory) {
  for (const bool own_memory : {true, false})
    for (const std::size_t bytes : kSizes) {
      const auto outcomes = run_transports(GetParam(), 2, [&](Transport& transport) {
        const int peer = 1 - transport.rank();
        const auto content = pattern(bytes, transport.rank());
        std::span<const std::byte> data = content;
        if (own_memory) {
          const auto memory = transport.allocate(bytes);
          std::copy(content.begin(), content.end(), memory.begin());
          data = memory;
        }
        std::vector<std::byte> into(bytes + 1, std::byte{0xee});
        const Outgoing out{peer, data};
        const Incoming in{peer, bytes, into.data(), {}};
        transport.exchange({&out, 1}, {&in, 1}, Seconds{20});
        require(into.back() == std::byte{0xee}, "wrote past the end");
        into.pop_back();
        require(into == pattern(bytes, peer), "content of into");
        Keep keep;
        const Incoming sunk{peer, bytes, nullptr, keep.sink()};
        const Outgoing weighted{peer, data, 0.5 + transport.rank()};
        transport.exchange({&weighted, 1}, {&sunk, 1}, Seconds{20});
        require(keep.orderly, "pieces of whole elements with one factor");
        require(bytes == 0 || keep.factor == 0.5 + peer, "the sender's factor");
        require(keep.data == pattern(bytes, peer), "content of the sink");
        const auto traffic = transport.traffic();
        require(traffic.sent == static_cast<std::int64_t>(2 * bytes) && traffic.received == traffic.sent, "traffic");
      });
      EXPECT_EQ(failure(outcomes), "") << bytes << (own_memory ? " bytes of its own" : " bytes from elsewhere");
    }
}

TEST_P(TransportConformance, KeepsTheOrderOfMessagesWithinAndAcrossExchanges) {
  const auto outcomes = run_transports(GetParam(), 3, [](Transport& transport) {
    const int me = transport.rank();
    for (int round = 0; round < 20; ++round) {
      std::vector<std::vector<std::byte>> sent, got;
      std::vector<Outgoing> out;
      std::vector<Incoming> in;
      const auto length = [&](int message) { return static_cast<std::size_t>(message * 37 % 300 + round); };
      for (int message = 0; message < 5; ++message)
        for (int peer = 0; peer < 3; ++peer) {
          if (peer == me) continue;
          sent.push_back(pattern(length(message), 100 * me + 10 * message + round));
          got.emplace_back(length(message));
          out.push_back({peer, {}});
          in.push_back({peer, length(message), nullptr, {}});
        }
      for (std::size_t i = 0; i < sent.size(); ++i) {
        out[i].data = sent[i];
        in[i].into = got[i].data();
        if (got[i].empty()) in[i].into = nullptr;
      }
      transport.exchange(out, in, Seconds{20});
      for (std::size_t i = 0; i < got.size(); ++i) {
        const int message = static_cast<int>(i) / 2;
        require(got[i] == pattern(length(message), 100 * in[i].peer + 10 * message + round), "order of messages");
      }
    }
  });
  EXPECT_EQ(failure(outcomes), "");
}

TEST_P(TransportConformance, ServesAllPeersAtOnce) {
  constexpr int kRanks = 5;
  const auto outcomes = run_transports(GetParam(), kRanks, [](Transport& transport) {
    const auto mine = pattern(300'001, transport.rank());
    std::vector<std::vector<std::byte>> theirs(kRanks, std::vector<std::byte>(mine.size()));
    std::vector<Outgoing> out;
    std::vector<Incoming> in;
    for (int peer = 0; peer < kRanks; ++peer) {
      if (peer == transport.rank()) continue;
      out.push_back({peer, mine});
      in.push_back({peer, mine.size(), theirs[static_cast<std::size_t>(peer)].data(), {}});
    }
    transport.exchange(out, in, Seconds{20});
    for (const auto& message : in)
      require(theirs[static_cast<std::size_t>(message.peer)] == pattern(mine.size(), message.peer), "content");
  });
  EXPECT_EQ(failure(outcomes), "");
}

TEST_P(TransportConformance, AllocatesAlignedAndZeroed) {
  const auto outcomes = run_transports(GetParam(), 1, [](Transport& transport) {
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{100}, std::size_t{1} << 20,
                                    std::size_t{2} << 20, (std::size_t{5} << 20) + 1}) {
      const auto memory = transport.allocate(bytes);
      require(memory.size() == bytes, "size");
      const auto alignment = bytes >= (std::size_t{2} << 20) ? std::uintptr_t{2} << 20 : std::uintptr_t{64};
      require(reinterpret_cast<std::uintptr_t>(memory.data()) % alignment == 0, "alignment");
      for (auto& byte : memory) {
        require(byte == std::byte{0}, "zeroed");
        byte = std::byte{1};
      }
    }
  });
  EXPECT_EQ(failure(outcomes), "");
}

TEST_P(TransportConformance, RefusesMoreMemoryThanThereIs) {
  const auto outcomes =
      run_transports(GetParam(), 1, [](Transport& transport) { transport.allocate(std::size_t{1} << 50); });
  ASSERT_TRUE(outcomes[0]);
  EXPECT_EQ(outcomes[0]->code(), Code::io) << outcomes[0]->what();
}

TEST_P(TransportConformance, RefusesAPeerThatDoesNotExistAndGoesOn) {
  const auto outcomes = run_transports(GetParam(), 2, [](Transport& transport) {
    for (const int peer : {-1, 2, transport.rank()}) {
      try {
        const Outgoing out{peer, {}};
        transport.exchange({&out, 1}, {}, Seconds{1});
        throw Error(Code::corrupt, "took it");
      } catch (const Error& error) {
        if (error.code() != Code::invalid_argument) throw;
      }
    }
    const Outgoing out{1 - transport.rank(), {}};
    const Incoming in{1 - transport.rank(), 0, nullptr, {}};
    transport.exchange({&out, 1}, {&in, 1}, Seconds{20});
  });
  EXPECT_EQ(failure(outcomes), "");
}

TEST_P(TransportConformance, TimesOutNamingWhoDidNotCome) {
  testing::Latch done(1);
  const auto outcomes = run_transports(GetParam(), 3, [&](Transport& transport) {
    if (transport.rank() != 0) {
      done.wait();
      return;
    }
    const Incoming in[] = {{1, 4, nullptr, {[](void*, std::size_t, std::span<const std::byte>, double) {}, nullptr}},
                           {2, 0, nullptr, {}}};
    const auto begin = now();
    std::string said;
    try {
      transport.exchange({}, in, Seconds{0.15});
    } catch (const Error& error) {
      said = error.what();
    }
    const double took = seconds(now() - begin);
    // Unusable now, and says so with the same words.
    Code again = Code::corrupt;
    try {
      transport.exchange({}, {}, Seconds{1});
    } catch (const Error& error) {
      again = error.code();
    }
    done.count_down();
    require(said.ends_with("rank 0 waited 150 ms; rank 1, 2 did not come"), said);
    require(took < 5, "took long");
    require(again == Code::timeout, "usable after a failure");
  });
  EXPECT_EQ(failure(outcomes), "");
}

TEST_P(TransportConformance, InterruptWakesWhoWaitsAndStopsWhatComes) {
  testing::Latch done(1);
  const auto outcomes = run_transports(GetParam(), 2, [&](Transport& transport) {
    if (transport.rank() == 1) {
      done.wait();
      return;
    }
    std::thread other([&] {
      ::usleep(30'000);
      transport.interrupt();
    });
    const Incoming in{1, 1, nullptr, {[](void*, std::size_t, std::span<const std::byte>, double) {}, nullptr}};
    int interrupted = 0;
    for (int i = 0; i < 2; ++i) try {
        transport.exchange({}, {&in, 1}, Seconds{20});
      } catch (const Error& error) {
        interrupted += error.code() == Code::interrupted ? 1 : 0;
      }
    other.join();
    done.count_down();
    require(interrupted == 2, "interrupted");
  });
  EXPECT_EQ(failure(outcomes), "");
}

// Also where the one that departs is in the middle of a wait, and where it is in no call at all.
TEST_P(TransportConformance, WhoDepartsSaysWhy) {
  const auto kind = parse_spec(GetParam()).name;
  if (kind == "gloo" || kind == "nccl") GTEST_SKIP() << kind << " has no words to pass on";
  for (const bool waits : {true, false}) {
    const auto outcomes = run_transports(GetParam(), 2, [waits](Transport& transport) {
      std::byte nothing{};
      const Incoming in{1 - transport.rank(), 1, &nothing, {}};
      if (transport.rank() == 1) return transport.exchange({}, {&in, 1}, Seconds{20});
      const Error why(Code::io, "[test] the disk is full");
      if (!waits) return transport.depart(why);
      std::thread other([&] {
        ::usleep(30'000);
        transport.depart(why);
        transport.depart(Error(Code::timeout, "[test] too late to say"));
      });
      try {
        transport.exchange({}, {&in, 1}, Seconds{20});
      } catch (const Error& error) {
        require(error.code() == Code::interrupted, "interrupted");
      }
      other.join();
    });
    EXPECT_FALSE(outcomes[0]);
    ASSERT_TRUE(outcomes[1]);
    EXPECT_EQ(outcomes[1]->code(), Code::io);
    EXPECT_NE(std::string(outcomes[1]->what()).find("the disk is full"), std::string::npos) << outcomes[1]->what();
  }
}

TEST_P(TransportConformance, SaysBothLengthsWhereTheyDisagree) {
  const auto outcomes = run_transports(GetParam(), 2, [](Transport& transport) {
    const std::size_t mine = transport.rank() == 0 ? 12 : 16;
    std::vector<std::byte> data(mine), into(mine);
    const Outgoing out{1 - transport.rank(), data};
    const Incoming in{1 - transport.rank(), mine, into.data(), {}};
    transport.exchange({&out, 1}, {&in, 1}, Seconds{20});
  });
  for (std::size_t rank = 0; rank < 2; ++rank) {
    ASSERT_TRUE(outcomes[rank]);
    EXPECT_EQ(outcomes[rank]->code(), Code::corrupt) << outcomes[rank]->what();
    const auto lengths = rank == 0 ? "got 16 bytes, expected 12" : "got 12 bytes, expected 16";
    EXPECT_NE(std::string(outcomes[rank]->what()).find(lengths), std::string::npos) << outcomes[rank]->what();
  }
}

TEST_P(TransportConformance, LosesAPeerThatLeaves) {
  const auto outcomes = run_transports(GetParam(), 3, [](Transport& transport) {
    if (transport.rank() == 1) return;
    const Incoming in{1, 1, nullptr, {[](void*, std::size_t, std::span<const std::byte>, double) {}, nullptr}};
    transport.exchange({}, {&in, 1}, Seconds{20});
  });
  EXPECT_FALSE(outcomes[1]);
  for (const std::size_t rank : {0U, 2U}) {
    ASSERT_TRUE(outcomes[rank]);
    EXPECT_EQ(outcomes[rank]->code(), Code::peer_lost);
    EXPECT_NE(std::string(outcomes[rank]->what()).find("lost rank 1"), std::string::npos) << outcomes[rank]->what();
  }
}

TEST_P(TransportConformance, SaysOnBothSidesThatRanksAreNotAtTheSame) {
  const auto outcomes = run_transports(GetParam(), 2, [](Transport& transport) {
    transport.describe_with([](const Signature& signature) { return fmt::format("operation {}", signature.what); });
    const Outgoing out{1 - transport.rank(), {}};
    const Incoming in{1 - transport.rank(), 0, nullptr, {}};
    transport.exchange({&out, 1}, {&in, 1}, Seconds{20}, {static_cast<std::uint64_t>(10 + transport.rank()), 5});
  });
  for (const auto& outcome : outcomes) {
    ASSERT_TRUE(outcome);
    EXPECT_EQ(outcome->code(), Code::invalid_argument);
    EXPECT_TRUE(std::string(outcome->what()).ends_with("got operation 10 on rank 0 and operation 11 on rank 1")) << outcome->what();
  }
}

TEST_P(TransportConformance, NoticesThatRanksWaitForEachOtherAtDifferentThings) {
  // Each waits for the next one: no message ever shows that they are not at the same.
  const auto begin = now();
  const auto outcomes = run_transports(GetParam(), 3, [](Transport& transport) {
    transport.describe_with([](const Signature& signature) { return fmt::format("operation {}", signature.what); });
    const Incoming in{(transport.rank() + 1) % 3, 0, nullptr, {}};
    transport.exchange({}, {&in, 1}, Seconds{20}, {static_cast<std::uint64_t>(transport.rank() == 2 ? 11 : 10), 5, 7});
  });
  EXPECT_LT(seconds(now() - begin), 5);
  for (const auto& outcome : outcomes) {
    ASSERT_TRUE(outcome);
    EXPECT_EQ(outcome->code(), Code::invalid_argument);
    EXPECT_TRUE(std::string(outcome->what()).ends_with("and operation 11 on rank 2")) << outcome->what();
  }
}

TEST_P(TransportConformance, TellsTheReasonToWhoWaitsForTheOneThatGaveUp) {
  testing::Latch done(2);
  const auto outcomes = run_transports(GetParam(), 4, [&](Transport& transport) {
    const int rank = transport.rank();
    if (rank == 3) return done.wait();  // never comes
    struct Count {
      testing::Latch& latch;
      ~Count() { latch.count_down(); }
    };
    // 0 waits for 3 and gives up; 1 waits for 0, and 2 for 1.
    const Incoming in{rank == 0 ? 3 : rank - 1, 0, nullptr, {}};
    if (rank != 0) {
      const Count count{done};
      transport.exchange({}, {&in, 1}, Seconds{20});
    }
    transport.exchange({}, {&in, 1}, Seconds{0.2});
  });
  for (const std::size_t rank : {0U, 1U, 2U}) {
    ASSERT_TRUE(outcomes[rank]);
    EXPECT_EQ(outcomes[rank]->code(), Code::timeout) << outcomes[rank]->what();
    EXPECT_TRUE(std::string(outcomes[rank]->what()).ends_with("rank 0 waited 200 ms; rank 3 did not come")) << outcomes[rank]->what();
  }
}

/// Whoever has had this process's cores meanwhile.
bool is_patient_in_time() {
  const auto until = now() + 20 * PatientWait::kSpoilt;
  while (!PatientWait::here() && now() < until) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return PatientWait::here();
}

TEST(PatientWait, IsOfItsThreadAndEndsWithItsScope) {
  EXPECT_FALSE(PatientWait::here());
  {
    const PatientWait outer;
    { const PatientWait inner; }
    EXPECT_TRUE(is_patient_in_time());
    bool elsewhere = true;
    std::thread([&] { elsewhere = PatientWait::here(); }).join();
    EXPECT_FALSE(elsewhere);
  }
  EXPECT_FALSE(PatientWait::here());
}

// Who offers its core and has it again after a turn of others waits no longer for it that way, for a while.
TEST(PatientWait, EndsWhereOthersTakeTheCore) {
  const PatientWait patient;
  ASSERT_TRUE(is_patient_in_time());
  PatientWait::was_away(PatientWait::kTurn / 2);
  EXPECT_TRUE(PatientWait::here());
  PatientWait::was_away(PatientWait::kTurn + 1);
  EXPECT_FALSE(PatientWait::here());
  EXPECT_TRUE(is_patient_in_time());
}

// Of who waits patiently, a message that comes while it looks, one that comes when it sleeps already, and one that does not come.
TEST_P(TransportConformance, ServesAndTimesOutWhoWaitsPatiently) {
  const auto outcomes = run_transports(GetParam(), 2, [](Transport& transport) {
    const PatientWait patient;
    const int other = 1 - transport.rank();
    std::uint64_t number = 0;
    for (const int microseconds : {0, 50, 5'000}) {
      const std::uint64_t sent = 10 + static_cast<std::uint64_t>(microseconds);
      const Outgoing out{other, std::as_bytes(std::span(&sent, 1))};
      const Incoming in{other, sizeof number, reinterpret_cast<std::byte*>(&number), {}};
      if (transport.rank() == 1) {
        std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
        transport.exchange({&out, 1}, {}, Seconds{20});
      } else {
        transport.exchange({}, {&in, 1}, Seconds{20});
        if (number != sent) throw Error(Code::corrupt, "another number came");
      }
    }
    if (transport.rank() == 1) return;
    const Incoming never{other, 8, reinterpret_cast<std::byte*>(&number), {}};
    try {
      transport.exchange({}, {&never, 1}, Seconds{0.05});
      throw Error(Code::corrupt, "nobody sent that");
    } catch (const Error& error) {
      if (error.code() != Code::timeout && error.code() != Code::peer_lost) throw;
    }
  });
  for (const auto& outcome : outcomes) EXPECT_FALSE(outcome) << outcome->what();
}

TEST_P(TransportConformance, MakesGroupsOfItsRanks) {
  // {0, 2} and {3, 1}, at once, each with a meeting of its own.
  testing::Meeting even({0, 2}), odd({3, 1});
  const auto outcomes = run_transports(GetParam(), 4, [&](Transport& transport) {
    const int rank = transport.rank();
    const std::vector<int> members = rank % 2 == 0 ? std::vector{0, 2} : std::vector{3, 1};
    const auto me = static_cast<std::size_t>(rank % 2 == 0 ? rank / 2 : (3 - rank) / 2);
    auto meeting = rank % 2 == 0 ? even.seat(me) : odd.seat(me);
    const auto group = transport.subgroup(members, *meeting);
    require(group->rank() == static_cast<int>(me) && group->size() == 2, "rank of size");
    // Memory of the whole transport, where it is shared, and messages of both at once.
    auto memory = transport.allocate(8);
    memory[0] = static_cast<std::byte>(rank);
    std::byte got{99}, whole{99};
    const Outgoing out{1 - group->rank(), memory.first(1)};
    const Incoming in{1 - group->rank(), 1, &got, {}};
    const Outgoing round{(rank + 1) % 4, memory.first(1)};
    const Incoming before{(rank + 3) % 4, 1, &whole, {}};
    for (int i = 0; i < 3; ++i) {
      group->exchange({&out, 1}, {&in, 1}, Seconds{20});
      transport.exchange({&round, 1}, {&before, 1}, Seconds{20});
    }
    require(static_cast<int>(got) == members[1 - me] && static_cast<int>(whole) == (rank + 3) % 4, "content");
    meeting.reset();
  });
  EXPECT_EQ(failure(outcomes), "");
}

TEST_P(TransportConformance, SharesMemoryOrSaysThatItDoesNot) {
  const auto outcomes = run_transports(GetParam(), 3, [](Transport& transport) {
    auto mine = transport.allocate(3);
    std::vector<Shared> all(3);
    if (!transport.shares_memory()) {
      try {
        transport.share({mine}, all, Seconds{1}, {});
      } catch (const Error& error) {
        return require(error.code() == Code::unsupported, "code");
      }
      throw Error(Code::corrupt, "took it");
    }
    const int rank = transport.rank();
    for (int round = 0; round < 50; ++round) {
      transport.share({mine, rank + 0.5}, all, Seconds{20}, {7, 3});
      for (int peer = 0; peer < 3; ++peer) {
        require(all[static_cast<std::size_t>(peer)].factor == peer + 0.5, "factor");
        all[static_cast<std::size_t>(peer)].data[rank] = static_cast<std::byte>(10 * rank + round);
      }
      transport.unshare(Seconds{20}, {1, 2});
      for (int peer = 0; peer < 3; ++peer)
        require(mine[static_cast<std::size_t>(peer)] == static_cast<std::byte>(10 * peer + round), "what the others wrote");
    }
    require(transport.traffic().sent == 50 && transport.traffic().received == 100, "traffic");
    std::vector<std::byte> outside(3);
    require(transport.reachable(mine), "what it gave");
    transport.share({rank == 1 ? std::span(outside) : mine}, all, Seconds{20}, {});
    require(all[0].data != nullptr && all[2].data != nullptr && (all[1].data != nullptr) == transport.reachable(outside), "reachable");
    transport.unshare(Seconds{20});
    transport.share({mine, 1, rank == 2}, all, Seconds{20}, {});
    require(!all[0].stand_in && !all[1].stand_in && all[2].stand_in, "what stands in for something else");
    transport.unshare(Seconds{20});
  });
  EXPECT_EQ(failure(outcomes), "");
}

TEST_P(TransportConformance, EndsAMeetingThatSomebodyDoesNotComeTo) {
  testing::Latch done(2);
  const auto outcomes = run_transports(GetParam(), 3, [&](Transport& transport) {
    if (!transport.shares_memory()) throw Error(Code::timeout, "rank 2 did not come");
    if (transport.rank() == 2) return done.wait();
    std::vector<Shared> all(3);
    const auto mine = transport.allocate(8);
    try {
      transport.share({mine}, all, transport.rank() == 0 ? Seconds{0.1} : Seconds{20}, {});
    } catch (...) {
      done.count_down();
      throw;
    }
  });
  for (const std::size_t rank : {0U, 1U}) {
    ASSERT_TRUE(outcomes[rank]);
    EXPECT_EQ(outcomes[rank]->code(), Code::timeout) << outcomes[rank]->what();
    EXPECT_TRUE(std::string(outcomes[rank]->what()).ends_with("rank 2 did not come")) << outcomes[rank]->what();
  }
}

TEST_P(TransportConformance, LeavesNoMeetingWhileSomebodyIsAtItsMemory) {
  // Rank 1 is slow; rank 0 gives up waiting for it at the second meeting, and its memory may be gone then.
  std::atomic<bool> written{false};
  const auto outcomes = run_transports(GetParam(), 2, [&](Transport& transport) {
    if (!transport.shares_memory()) throw Error(Code::timeout, "rank 1 did not come");
    std::vector<Shared> all(2);
    const auto mine = transport.allocate(8);
    transport.share({mine}, all, Seconds{20}, {});
    if (transport.rank() == 1) {
      ::usleep(300'000);
      all[0].data[0] = std::byte{7};
      written = true;
    }
    try {
      transport.unshare(transport.rank() == 0 ? Seconds{0.05} : Seconds{20});
    } catch (const Error&) {
      // Of processes each has a mapping of its own.
      if (transport.rank() == 0 && GetParam() == "inproc") require(written && mine[0] == std::byte{7}, "left while rank 1 was at its memory");
      throw;
    }
  });
  ASSERT_TRUE(outcomes[0]);
  EXPECT_EQ(outcomes[0]->code(), Code::timeout) << outcomes[0]->what();
  EXPECT_TRUE(std::string(outcomes[0]->what()).ends_with("rank 1 did not come")) << outcomes[0]->what();
}

INSTANTIATE_TEST_SUITE_P(Builtin, TransportConformance, ::testing::ValuesIn(testing::transports_and_staging_under_test()),
                         [](const auto& test) { return testing::test_name(test.param); });

}  // namespace
}  // namespace ddl
