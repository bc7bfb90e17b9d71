#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ddl {

/// Elements [begin, end) of a collective's buffer.
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

/// What a rank does with one range in one round.
enum class StepKind : std::uint8_t {
  send,     ///< the peer gets this range as it stands at the start of the round
  receive,  ///< the peer's range replaces ours
  reduce,   ///< the peer's range is combined into ours: ours = op(ours, theirs)
};

struct Step {
  StepKind kind = StepKind::send;
  int peer = 0;
  Range range;

  bool operator==(const Step&) const = default;
};

/// Steps that start together; the next round starts when all of them are complete. No range that a round writes may
/// overlap another range of the same round: a rank's sends read what the round before left.
using Round = std::vector<Step>;

/// One rank's part of a collective. The n-th message from rank a to rank b in a's rounds is the n-th that b takes
/// from a in its own.
struct Schedule {
  int rank = 0;
  int ranks = 1;
  std::size_t elements = 0;
  std::vector<Round> rounds;
};

/// What a collective is asked for. `root` matters to those that have one.
struct CollectiveShape {
  int ranks = 1;
  std::size_t elements = 0;
  int root = 0;
};

/// A pure function from (rank, shape) to that rank's schedule: executed, verified, later priced and simulated.
using Algorithm = std::function<Schedule(int rank, const CollectiveShape& shape)>;

/// Range number `part` of `elements` cut into `parts` ranges whose sizes differ by at most one; the longer ones first.
Range part_of(std::size_t elements, int parts, int part);

/// What is wrong with the schedules of all ranks; empty where nothing is.
///  - a deadlock: no rank can finish its round;
///  - a message without its counterpart, or of another length;
///  - a range written and used twice in one round;
///  - a result other than `goal` (below), found by following the set of contributions to every element.
enum class Goal { all_reduce, broadcast, barrier };
std::vector<std::string> verify(const Algorithm& algorithm, const CollectiveShape& shape, Goal goal);

}  // namespace ddl
