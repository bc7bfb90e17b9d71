#include <gtest/gtest.h>

#include "ddl/collective/testing.h"
#include "ddl/transport/gloo/gloo.h"

// The conformance suites over the Gloo inside LibTorch, with our schedules and its own collectives, and ranks that are killed or
// stopped. Built where its headers were given.
//
// usage: gloo_test [deaths] [--gtest_…]
//        deaths: in a process of their own, since one that forks may have no threads.
//
// Left out is what takes a word from a rank that sends no message: Gloo carries none beside a collective's own. So a rank
// names the peer that it waits for, not the one at the beginning, and hears that a connection was closed, not why.

int main(int argc, char** argv) {
  ddl::testing::library_under_test = "gloo";
  const bool deaths = argc > 1 && std::string_view(argv[1]) == "deaths";
  if (deaths) ddl::load_gloo();
  ::testing::GTEST_FLAG(filter) = deaths ? "*PeerDeath*" :
      "-*PeerDeath*:ThreadDeath*:*.TimesOutNamingWhoDidNotCome/*:*.NoticesThatRanksWaitForEachOtherAtDifferentThings/*:"
      "*.TellsTheReasonToWhoWaitsForTheOneThatGaveUp/*:*.SaysBothLengthsWhereTheyDisagree/*";
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
