#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace ddl {

/// Elements [begin, end) of what a schedule works on: addresses below Schedule::elements are the collective's buffer,
/// those from there on are scratch. No range lies in both.
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
  copy,     ///< without a peer: the elements from Step::source on replace the range
  combine,  ///< without a peer: range = op(range, the elements from Step::source on)
};
std::string_view name(StepKind kind);
/// Whether it is one end of a message.
constexpr bool is_message(StepKind kind) { return kind <= StepKind::reduce; }

inline constexpr int kNobody = -1;

struct Step {
  StepKind kind = StepKind::send;
  int peer = kNobody;
  Range range;
  std::size_t source = 0;  ///< of copy and combine

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
  std::size_t scratch = 0;  ///< elements of it; they hold nothing at the start
};

/// What a collective is for. Every one works in place on a buffer of n elements, cut by part_of() where ranks have
/// their own parts of it. Their numbers are part of the wire format.
enum class Goal : std::uint8_t {
  all_reduce,      ///< everyone has the reduction of all buffers
  broadcast,       ///< everyone has the root's buffer
  barrier,         ///< nobody leaves before everyone has come
  reduce,          ///< the root has the reduction; the others' buffers hold partial results
  reduce_scatter,  ///< rank r has part r of the reduction; the rest of its buffer holds partial results
  all_gather,      ///< everyone has every rank's part
  gather,          ///< the root has every rank's part
  scatter,         ///< rank r has part r of the root's buffer
  all_to_all,      ///< rank r's part q is what was rank q's part r; n must be a multiple of the ranks
  point_to_point,  ///< the peer has the root's buffer; the others take no part
};
inline constexpr Goal kGoals[] = {Goal::all_reduce,     Goal::broadcast,  Goal::barrier, Goal::reduce,
                                  Goal::reduce_scatter, Goal::all_gather, Goal::gather,  Goal::scatter,
                                  Goal::all_to_all,     Goal::point_to_point};
std::string_view name(Goal goal);
/// Errors: invalid_argument on a word that is none of them.
Goal goal_from_name(std::string_view word);
constexpr bool has_root(Goal goal) {
  return goal == Goal::broadcast || goal == Goal::reduce || goal == Goal::gather || goal == Goal::scatter ||
         goal == Goal::point_to_point;
}
constexpr bool reduces(Goal goal) {
  return goal == Goal::all_reduce || goal == Goal::reduce || goal == Goal::reduce_scatter;
}

/// What a collective is asked for.
struct CollectiveShape {
  int ranks = 1;
  std::size_t elements = 0;
  int root = 0;               ///< of goals that have one
  int peer = 0;               ///< of point_to_point: who receives
  std::size_t segment = 0;    ///< most elements of a message, of algorithms that pipeline; 0: their own choice
  std::vector<int> hosts = {};  ///< the host of every rank, of algorithms that care; empty: all on one
};

/// A pure function from (rank, shape) to that rank's schedule: executed, verified, priced and simulated.
using Algorithm = std::function<Schedule(int rank, const CollectiveShape& shape)>;

/// Range number `part` of `elements` cut into `parts` ranges whose sizes differ by at most one; the longer ones first.
Range part_of(std::size_t elements, int parts, int part);

/// Appends `part`, made for the ranks `members` alone and `part.elements` elements, as further rounds of `whole`: its
/// rank i is members[i], its element 0 is `offset` of `whole`. Scratch is shared with what was appended before.
void append(Schedule& whole, const Schedule& part, const std::vector<int>& members, std::size_t offset);

/// Elements that the rank sends.
std::size_t elements_sent(const Schedule& schedule);

/// What is wrong with the schedules of all ranks; empty where nothing is.
///  - a deadlock: no rank can finish its round;
///  - a message without its counterpart, or of another length;
///  - a range written and used twice in one round, or outside of buffer and scratch;
///  - something sent or combined that holds nothing, or belongs to other elements;
///  - a result other than `goal` (above), found by following the expression that every element holds.
std::vector<std::string> verify(const Algorithm& algorithm, const CollectiveShape& shape, Goal goal);

}  // namespace ddl
