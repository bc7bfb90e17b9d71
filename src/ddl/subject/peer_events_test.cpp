#include "ddl/subject/peer_events.h"

#include <cmath>

#include <gtest/gtest.h>

#include "ddl/core/error.h"

namespace ddl {
namespace {

const std::string kStep = R"({"event":"step","step":0,"samples":3,"loss":2.0,"begin_ns":5,"end_ns":9,"load_ms":0.1,)"
                          R"("forward_ms":1,"backward_ms":2,"update_ms":0.5})" "\n";
const std::string kEmptyStep =
    R"({"event":"step","step":0,"samples":0,"loss":null,"begin_ns":5,"end_ns":9,"load_ms":0,)"
    R"("forward_ms":1,"backward_ms":2,"update_ms":0.5})"
    "\n";
const std::string kDone = R"({"event":"done","steps":1,"parameters":7,"parameters_digest":"ab","peak_memory_bytes":8,)"
                          R"("versions":{"torch":"2"}})";

TEST(PeerEvents, ReadsPiecesOfAnySize) {
  const std::string all = R"({"event":"ready","rank":0,"world":1,"ns":4})" "\n\n" + kStep +
                          R"({"event":"epoch","epoch":0,"step":1,"loss":1.5,"accuracy":null,"ns":1})" "\n"
                          R"({"event":"of another version"})" "\n" + kDone;
  for (std::size_t piece = 1; piece < all.size(); piece += 7) {
    PeerEvents events;
    for (std::size_t at = 0; at < all.size(); at += piece) events.feed(std::string_view(all).substr(at, piece));
    events.finish();
    EXPECT_EQ(events.ready, 4);
    ASSERT_EQ(events.steps.size(), 1U);
    EXPECT_EQ(events.steps[0].loss, 2.0);
    EXPECT_EQ(events.steps[0].end, 9);
    EXPECT_EQ(events.epochs.at(0).loss, 1.5);
    EXPECT_FALSE(events.epochs.at(0).accuracy);
    EXPECT_EQ(events.done.value().versions.at("torch"), "2");
  }
}

TEST(PeerEvents, RefusesWhatIsNoEvent) {
  for (const auto* bad : {"Traceback\n", "{\"event\":\"step\"}\n", "[1]\n", "{\"event\":1}\n"}) {
    PeerEvents events;
    EXPECT_THROW(events.feed(bad), Error) << bad;
  }
}

TEST(PeerEvents, NoticesWhatIsMissing) {
  PeerEvents cut, lost, failed;
  cut.feed(kStep);
  EXPECT_THROW(cut.finish(), Error);
  lost.feed(kDone);
  EXPECT_THROW(lost.finish(), Error);
  failed.feed(R"({"event":"error","message":"no"})");
  failed.finish();
  EXPECT_EQ(failed.error, "no");
}

TEST(PeerEvents, WeighsLossesBySamples) {
  std::vector<PeerEvents> ranks(3);
  ranks[0].feed(kStep);
  auto one = kStep;
  one.replace(one.find("\"samples\":3"), 11, "\"samples\":1");
  one.replace(one.find("2.0"), 3, "6.0");
  ranks[1].feed(one);
  ranks[2].feed(kEmptyStep);
  EXPECT_EQ(global_losses(ranks), (std::vector<double>{3.0}));
  EXPECT_TRUE(global_losses({}).empty());
  ranks[1].steps[0].loss.reset();  // diverged
  EXPECT_TRUE(std::isnan(global_losses(ranks).at(0)));
}

}  // namespace
}  // namespace ddl
