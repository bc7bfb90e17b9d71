#include <gtest/gtest.h>

#include "ddl/collective/testing.h"
#include "ddl/transport/available_memory.h"

// Lengths that do not fit into 31 bits: of one message, not only of a buffer that goes in parts.

namespace ddl {
namespace {

/// 2.2 GiB of int32, and not a round number of anything.
constexpr std::size_t kElements = 590'558'003;
/// Two buffers, two scratch buffers of the same size, and room for others.
constexpr std::size_t kNeeded = std::size_t{12} << 30;

std::int32_t input(int rank, std::size_t i) { return static_cast<std::int32_t>(i & 0xfffff) * (rank + 1) + rank; }

class LargeMessage : public ::testing::TestWithParam<std::pair<std::string, std::string>> {};

TEST_P(LargeMessage, OfMoreThanTwoGibibytesIsReduced) {
  if (const auto available = available_memory(); available < kNeeded)
    GTEST_SKIP() << "memory: " << available << " bytes available, " << kNeeded << " needed";
  const auto [transport, algorithm] = GetParam();
  const std::string algorithm_word = algorithm;
  const auto outcomes = testing::run_group(transport, 2, [&](Communicator& group) {
    const auto memory = group.transport().allocate(kElements * sizeof(std::int32_t));
    const std::span values(reinterpret_cast<std::int32_t*>(memory.data()), kElements);
    for (std::size_t i = 0; i < kElements; ++i) values[i] = input(group.rank(), i);
    group.run({Goal::all_reduce, ReduceOp::sum, algorithm_word}, testing::buffer_of(values));
    for (std::size_t i = 0; i < kElements; ++i)
      if (const auto right = input(0, i) + input(1, i); values[i] != right)
        throw Error(Code::corrupt, fmt::format("element {}; got {}, expected {}", i, values[i], right));
    if (algorithm_word == "recursive-doubling")
      testing::require(group.transport().traffic().sent == static_cast<std::int64_t>(memory.size()), "bytes sent");
  }, {Seconds{120}});
  EXPECT_EQ(testing::failure(outcomes), "");
}

// Recursive doubling sends everything at once; direct in shared memory reads it in place.
INSTANTIATE_TEST_SUITE_P(Builtin, LargeMessage,
                         ::testing::Values(std::pair{"tcp", "recursive-doubling"}, std::pair{"shm", "recursive-doubling"}, std::pair{"shm", "direct"}),
                         [](const auto& test) { return test.param.first + (test.param.second == "direct" ? "_direct" : "_at_once"); });

}  // namespace
}  // namespace ddl
