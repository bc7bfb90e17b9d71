#include "ddl/transport/rendezvous.h"

#include <gtest/gtest.h>

#include "ddl/transport/testing.h"

namespace ddl {
namespace {

TEST(InProcessRendezvous, GivesEveryoneAllTextsByRankEveryTime) {
  const auto outcomes = testing::run_ranks(5, [](Rendezvous& meeting) {
    for (int round = 0; round < 50; ++round) {
      const auto texts = meeting.exchange(fmt::format("{}/{}", meeting.rank(), round), Seconds{20});
      for (int rank = 0; rank < 5; ++rank) {
        if (texts[static_cast<std::size_t>(rank)] != fmt::format("{}/{}", rank, round))
          throw Error(Code::corrupt, texts[static_cast<std::size_t>(rank)]);
      }
    }
  });
  EXPECT_EQ(testing::failure(outcomes), "");
}

TEST(InProcessRendezvous, NamesWhoDidNotCome) {
  const auto meeting = in_process_rendezvous(3);
  try {
    meeting[1]->exchange("", Seconds{0.02});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::timeout);
    EXPECT_STREQ(error.what(), "[rendezvous] rank 1 waited 20 ms; rank 0, 2 did not come");
  }
}

TEST(InProcessRendezvous, NamesWhoLeft) {
  auto meeting = in_process_rendezvous(2);
  meeting[0].reset();
  try {
    meeting[1]->exchange("", Seconds{20});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::peer_lost);
  }
}

}  // namespace
}  // namespace ddl
