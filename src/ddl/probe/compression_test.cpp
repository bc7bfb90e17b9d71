#include "ddl/probe/compression.h"

#include <gtest/gtest.h>

#include "ddl/collective/compression.h"
#include "ddl/core/error.h"
#include "ddl/transport/builtin.h"
#include "ddl/transport/testing.h"

namespace ddl {
namespace {

/// Of rank 0.
CompressionSeconds timed(const std::string& compression, int ranks, std::size_t bytes) {
  CompressionSeconds found;
  const auto outcomes = testing::run_ranks(ranks, [&](Rendezvous& meeting) {
    Communicator group(builtin_transports().at("inproc").make(meeting, {Seconds{60}, "probe"}), Seconds{60});
    const auto own = time_compression(group, compression, bytes, {1e-3});
    if (group.rank() == 0) found = own;
  });
  EXPECT_EQ(testing::failure(outcomes), "") << compression;
  return found;
}

// Whatever goes over the wire, the work on the elements is a rank's own.
TEST(TimeCompression, EveryCompressionTakesTimeOfItsOwn) {
  for (const auto& name : builtin_compressions().names()) {
    if (name == "none") continue;
    for (const int ranks : {1, 2, 3}) {
      const auto found = timed(name, ranks, std::size_t{1} << 18);
      EXPECT_GT(found.call, 0) << name << " " << ranks;
      EXPECT_GE(found.own(), 0) << name << " " << ranks;
    }
    const auto alone = timed(name, 1, std::size_t{1} << 20);
    EXPECT_GT(alone.own(), 1e-6) << name;
    EXPECT_GT(alone.own(), alone.collectives) << name << ": one rank has nobody to send to";
  }
}

TEST(TimeCompression, OfABufferThatIsNoMultiple) {
  for (const std::size_t bytes : {std::size_t{4}, std::size_t{4 * 1001}}) EXPECT_GT(timed("int8", 3, bytes).call, 0) << bytes;
}

TEST(TimeCompression, WhatThereIsNoneOfIsRefused) {
  try {
    testing::run_ranks(1, [&](Rendezvous& meeting) {
      Communicator group(builtin_transports().at("inproc").make(meeting, {Seconds{60}, "probe"}), Seconds{60});
      EXPECT_THROW(time_compression(group, "top", 64, {1e-3}), Error);
    });
  } catch (const Error& error) {
    FAIL() << error.what();
  }
}

}  // namespace
}  // namespace ddl
