#pragma once

#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "ddl/collective/testing.h"

namespace ddl {

/// What `body` gives on each rank of a group: threads of this process, over inproc. None leaves before all have come to the end.
template <typename Body>
auto on_ranks(int ranks, const Body& body) {
  std::vector<std::invoke_result_t<const Body&, Communicator&>> results(static_cast<std::size_t>(ranks));
  const auto outcomes = testing::run_group(
      "inproc", ranks,
      [&](Communicator& communicator) {
        results[static_cast<std::size_t>(communicator.rank())] = body(communicator);
        communicator.barrier().wait();
      },
      {Seconds{60}});
  EXPECT_EQ(testing::failure(outcomes), "");
  return results;
}

}  // namespace ddl
