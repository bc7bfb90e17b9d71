#include <algorithm>
#include <map>
#include <utility>

#include "ddl/core/error.h"
#include "ddl/plan/schedule.h"

// Vocabulary. A *value* is an expression over the ranks' inputs: nothing, a leaf (one rank's input) or op(a, b), where
// the order of a and b does not matter. Equal expressions share one number, so "the same bits on every rank" is the
// comparison of two integers. A *piece* is a run of addresses that hold the same value of elements that lay in a row,
// `shift` addresses further on, in the inputs: 10^8 elements cost as much as the algorithm has slices.

namespace ddl {
namespace {

constexpr std::size_t kMostFindings = 16;
constexpr std::size_t kNothing = static_cast<std::size_t>(-1);

std::string text(Range range) { return fmt::format("[{}, {})", range.begin, range.end); }

bool overlap(Range a, Range b) { return std::max(a.begin, b.begin) < std::min(a.end, b.end); }

/// Expressions over the ranks' inputs, and how often each input occurs in them.
class Expressions {
 public:
  explicit Expressions(int ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      uses_.emplace_back(static_cast<std::size_t>(ranks), 0);
      uses_.back()[static_cast<std::size_t>(rank)] = 1;
    }
  }
  /// The leaf of rank r is value r.
  std::size_t combine(std::size_t a, std::size_t b) {
    const auto [found, fresh] = known_.try_emplace(std::minmax(a, b), uses_.size());
    if (fresh) {
      auto sum = uses_[a];
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += uses_[b][i];
      uses_.push_back(std::move(sum));
    }
    return found->second;
  }
  const std::vector<std::size_t>& uses(std::size_t value) const { return uses_[value]; }

 private:
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> known_;
  std::vector<std::vector<std::size_t>> uses_;
};

struct Piece {
  std::size_t size = 0;
  std::size_t value = kNothing;
  std::ptrdiff_t shift = 0;
};

/// What the addresses of one rank hold.
class Holding {
 public:
  explicit Holding(std::size_t addresses) : end_(addresses) { pieces_[0] = {kNothing, 0}; }

  std::vector<Piece> read(Range range) const {
    std::vector<Piece> all;
    if (range.size() == 0) return all;
    auto at = std::prev(pieces_.upper_bound(range.begin));
    for (std::size_t begin = range.begin; begin < range.end; ++at) {
      const auto after = std::next(at);
      const std::size_t end = std::min(range.end, after == pieces_.end() ? end_ : after->first);
      all.push_back({end - begin, at->second.value, at->second.shift});
      begin = end;
    }
    return all;
  }

  void write(Range range, const std::vector<Piece>& pieces) {
    if (range.size() == 0) return;
    cut(range.begin);
    cut(range.end);
    pieces_.erase(pieces_.lower_bound(range.begin), pieces_.lower_bound(range.end));
    std::size_t begin = range.begin;
    for (const auto& piece : pieces) {
      pieces_[begin] = {piece.value, piece.shift};
      begin += piece.size;
    }
    join(range.begin);
    join(range.end);
  }

 private:
  struct Held {
    std::size_t value = kNothing;
    std::ptrdiff_t shift = 0;
    bool operator==(const Held&) const = default;
  };

  void cut(std::size_t at) {
    if (at >= end_) return;
    const auto before = std::prev(pieces_.upper_bound(at));
    if (before->first != at) pieces_[at] = before->second;
  }
  void join(std::size_t at) {
    const auto here = pieces_.find(at);
    if (here != pieces_.end() && here != pieces_.begin() && std::prev(here)->second == here->second) pieces_.erase(here);
  }

  std::size_t end_;
  std::map<std::size_t, Held> pieces_;  // by first address
};

/// Calls body(address in the first range, piece of `a`, piece of `b`) for runs in which neither changes.
template <typename Body>
void zip(std::size_t begin, std::vector<Piece> a, std::vector<Piece> b, const Body& body) {
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const std::size_t size = std::min(a[i].size, b[j].size);
    body(begin, Piece{size, a[i].value, a[i].shift}, Piece{size, b[j].value, b[j].shift});
    begin += size;
    if ((a[i].size -= size) == 0) ++i;
    if ((b[j].size -= size) == 0) ++j;
  }
}

class Verifier {
 public:
  Verifier(const Algorithm& algorithm, const CollectiveShape& shape, Goal goal)
      : shape_(shape), goal_(goal), expressions_(shape.ranks) {
    for (int rank = 0; rank < shape.ranks; ++rank) schedules_.push_back(algorithm(rank, shape));
  }

  std::vector<std::string> run() {
    check_form();
    if (!findings_.empty()) return std::move(findings_);
    check_overlaps();
    simulate();
    // What a rank holds means nothing where the messages did not go through.
    if (!findings_.empty()) return std::move(findings_);
    if (goal_ == Goal::barrier)
      check_barrier();
    else
      for (int rank = 0; rank < shape_.ranks; ++rank) check_result(rank);
    return std::move(findings_);
  }

 private:
  struct RankState {
    std::size_t round = 0;
    std::vector<bool> complete;        // of the round's steps
    Holding holds;
    std::vector<bool> heard;           // whose beginnings came before this moment
    std::vector<bool> heard_at_start;  // … before the start of the round: what its messages carry
  };

  template <typename... Args>
  void find(fmt::format_string<Args...> format, Args&&... args) {
    if (findings_.size() < kMostFindings) findings_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  const Schedule& schedule(int rank) const { return schedules_[static_cast<std::size_t>(rank)]; }
  RankState& state(int rank) { return states_[static_cast<std::size_t>(rank)]; }
  Range part(int rank) const { return part_of(shape_.elements, shape_.ranks, rank); }

  void check_form() {
    for (int rank = 0; rank < shape_.ranks; ++rank) {
      const auto& mine = schedule(rank);
      if (mine.rank != rank || mine.ranks != shape_.ranks || mine.elements != shape_.elements)
        find("rank {}: the schedule is another's; got rank {} of {} with {} elements, expected {} of {} with {}", rank,
             mine.rank, mine.ranks, mine.elements, rank, shape_.ranks, shape_.elements);
      const std::size_t end = mine.elements + mine.scratch;
      const auto outside = [&](Range range) {
        return range.begin > range.end || range.end > end || (range.begin < mine.elements && range.end > mine.elements);
      };
      for (std::size_t round = 0; round < mine.rounds.size(); ++round)
        for (const auto& step : mine.rounds[round]) {
          if (is_message(step.kind) && (step.peer < 0 || step.peer >= shape_.ranks || step.peer == rank))
            find("rank {} round {}: {} has no such peer; got {}, expected another rank of {}", rank, round,
                 name(step.kind), step.peer, shape_.ranks);
          if (outside(step.range))
            find("rank {} round {}: {} peer {} out of the buffer; got {}, expected within [0, {}) or [{}, {})", rank,
                 round, name(step.kind), step.peer, text(step.range), shape_.elements, shape_.elements, end);
          if (!is_message(step.kind) && outside({step.source, step.source + step.range.size()}))
            find("rank {} round {}: {} out of the buffer; got {} elements from {}, expected within [0, {}) or [{}, {})",
                 rank, round, name(step.kind), step.range.size(), step.source, shape_.elements, shape_.elements, end);
        }
    }
  }

  void check_overlaps() {
    struct Use {
      Range range;
      bool writes;
      const Step* step;
    };
    for (const auto& mine : schedules_)
      for (std::size_t round = 0; round < mine.rounds.size(); ++round) {
        std::vector<Use> uses;
        for (const auto& step : mine.rounds[round]) {
          uses.push_back({step.range, step.kind != StepKind::send, &step});
          if (!is_message(step.kind)) uses.push_back({{step.source, step.source + step.range.size()}, false, &step});
        }
        for (std::size_t i = 0; i < uses.size(); ++i)
          for (std::size_t j = i + 1; j < uses.size(); ++j)
            if ((uses[i].writes || uses[j].writes) && overlap(uses[i].range, uses[j].range))
              find("rank {} round {}: {} {} peer {} overlaps {} {} peer {}; expected a written range to be used once",
                   mine.rank, round, name(uses[i].step->kind), text(uses[i].range), uses[i].step->peer,
                   name(uses[j].step->kind), text(uses[j].range), uses[j].step->peer);
      }
  }

  const Round* current(int rank) const {
    const auto& rounds = schedule(rank).rounds;
    const std::size_t at = states_[static_cast<std::size_t>(rank)].round;
    return at < rounds.size() ? &rounds[at] : nullptr;
  }

  void enter_round(int rank) {
    auto& mine = state(rank);
    mine.heard_at_start = mine.heard;
    const Round* round = current(rank);
    mine.complete.assign(round != nullptr ? round->size() : 0, false);
    if (round == nullptr) return;
    for (std::size_t i = 0; i < round->size(); ++i) {
      const auto& step = (*round)[i];
      if (is_message(step.kind)) continue;
      const auto pieces = mine.holds.read({step.source, step.source + step.range.size()});
      place(rank, step, moved(pieces, step.source, step.range.begin), "its own scratch");
      mine.complete[i] = true;
    }
  }

  /// The first step of `rank`'s round that takes from (or, where `sends`, gives to) `peer` and is not complete.
  std::size_t pending(int rank, int peer, bool sends) const {
    const Round* round = current(rank);
    if (round == nullptr) return kNone;
    for (std::size_t i = 0; i < round->size(); ++i)
      if (is_message((*round)[i].kind) && (*round)[i].peer == peer && ((*round)[i].kind == StepKind::send) == sends &&
          !states_[static_cast<std::size_t>(rank)].complete[i])
        return i;
    return kNone;
  }

  /// What a rank holds before the first round.
  Holding start(int rank) const {
    const auto& mine = schedule(rank);
    Holding holds(mine.elements + mine.scratch);
    const auto leaf = static_cast<std::size_t>(rank);
    Range known{0, shape_.elements};
    if (goal_ == Goal::all_gather || goal_ == Goal::gather) known = part(rank);
    if ((goal_ == Goal::broadcast || goal_ == Goal::scatter || goal_ == Goal::point_to_point) && rank != shape_.root)
      known = {};
    holds.write(known, {{known.size(), leaf, 0}});
    return holds;
  }

  void simulate() {
    for (int rank = 0; rank < shape_.ranks; ++rank) {
      std::vector<bool> heard(schedules_.size(), false);
      heard[static_cast<std::size_t>(rank)] = true;
      states_.push_back({0, {}, start(rank), heard, heard});
    }
    for (int rank = 0; rank < shape_.ranks; ++rank) enter_round(rank);
    for (bool progress = true; progress;) {
      progress = false;
      for (int rank = 0; rank < shape_.ranks; ++rank) progress |= advance(rank);
    }
    report_stuck();
  }

  /// Delivers what `rank` sends and its peers are ready to take; goes to the next round where that completes one.
  bool advance(int rank) {
    auto& mine = state(rank);
    const Round* round = current(rank);
    if (round == nullptr) return false;
    bool progress = false;
    for (const auto& step : *round) {
      if (step.kind != StepKind::send) continue;
      const std::size_t out = pending(rank, step.peer, true);
      const std::size_t in = pending(step.peer, rank, false);
      if (out == kNone || in == kNone) continue;
      deliver(rank, (*round)[out], step.peer, (*current(step.peer))[in]);
      mine.complete[out] = true;
      state(step.peer).complete[in] = true;
      progress = true;
    }
    if (std::find(mine.complete.begin(), mine.complete.end(), false) == mine.complete.end()) {
      ++mine.round;
      enter_round(rank);
      progress = true;
    }
    return progress;
  }

  void deliver(int from, const Step& out, int to, const Step& in) {
    const auto& sender = state(from);
    auto& receiver = state(to);
    if (out.range.size() != in.range.size())
      find("rank {} round {}: {} from rank {} has another length; got {} elements (its round {}), expected {}", to,
           receiver.round, name(in.kind), from, out.range.size(), sender.round, in.range.size());
    else
      place(to, in, moved(sender.holds.read(out.range), out.range.begin, in.range.begin),
            fmt::format("rank {} (its round {})", from, sender.round));
    for (std::size_t i = 0; i < receiver.heard.size(); ++i)
      if (sender.heard_at_start[i]) receiver.heard[i] = true;
  }

  /// The same elements at other addresses.
  static std::vector<Piece> moved(std::vector<Piece> pieces, std::size_t from, std::size_t to) {
    for (auto& piece : pieces) piece.shift += static_cast<std::ptrdiff_t>(from) - static_cast<std::ptrdiff_t>(to);
    return pieces;
  }

  void place(int rank, const Step& step, const std::vector<Piece>& theirs, const std::string& from) {
    auto& mine = state(rank);
    for (std::size_t at = step.range.begin; const auto& piece : theirs) {
      if (piece.value == kNothing)
        find("rank {} round {}: {} {} from {} takes what holds nothing yet", rank, mine.round, name(step.kind),
             text({at, at + piece.size}), from);
      at += piece.size;
    }
    if (step.kind != StepKind::reduce && step.kind != StepKind::combine) {
      mine.holds.write(step.range, theirs);
      return;
    }
    std::vector<Piece> sums;
    zip(step.range.begin, mine.holds.read(step.range), theirs, [&](std::size_t at, const Piece& a, const Piece& b) {
      sums.push_back(a);
      if (a.value == kNothing || b.value == kNothing) return;  // found where it came from
      if (a.shift != b.shift)
        find("rank {} round {}: {} {} from {} is of other elements; got those of {}, expected those of {}", rank, mine.round,
             name(step.kind), text({at, at + a.size}), from, origin(at, b), origin(at, a));
      else
        sums.back().value = expressions_.combine(a.value, b.value);
    });
    mine.holds.write(step.range, sums);
  }

  static std::string origin(std::size_t at, const Piece& piece) {
    const std::size_t begin = at + static_cast<std::size_t>(piece.shift);
    return text({begin, begin + piece.size});
  }

  void report_stuck() {
    for (int rank = 0; rank < shape_.ranks; ++rank) {
      const Round* round = current(rank);
      if (round == nullptr) continue;
      const auto& mine = state(rank);
      for (std::size_t i = 0; i < round->size(); ++i) {
        if (mine.complete[i]) continue;
        const auto& step = (*round)[i];
        if (current(step.peer) == nullptr)
          find("rank {} round {}: {} {} peer {} is unmatched; got the end of rank {}'s schedule, expected a counterpart",
               rank, mine.round, name(step.kind), text(step.range), step.peer, step.peer);
        else
          find("deadlock: rank {} round {} waits to {} {} peer {}; got rank {} waiting in its round {}, expected its "
               "counterpart",
               rank, mine.round, name(step.kind), text(step.range), step.peer, step.peer, state(step.peer).round);
      }
    }
  }

  void check_result(int rank) {
    const auto at_root = rank == shape_.root;
    switch (goal_) {
      case Goal::all_reduce: return expect_reduced(rank, {0, shape_.elements}, 0);
      case Goal::reduce: return at_root ? expect_reduced(rank, {0, shape_.elements}, rank) : void();
      case Goal::reduce_scatter: return expect_reduced(rank, part(rank), rank);
      case Goal::broadcast: return expect_input(rank, {0, shape_.elements}, shape_.root, 0);
      case Goal::scatter: return expect_input(rank, part(rank), shape_.root, 0);
      case Goal::point_to_point:
        return rank == shape_.peer ? expect_input(rank, {0, shape_.elements}, shape_.root, 0) : void();
      case Goal::gather:
        if (!at_root) return;
        [[fallthrough]];
      case Goal::all_gather:
        for (int owner = 0; owner < shape_.ranks; ++owner) expect_input(rank, part(owner), owner, 0);
        return;
      case Goal::all_to_all:
        for (int from = 0; from < shape_.ranks; ++from)
          expect_input(rank, part(from), from, static_cast<std::ptrdiff_t>(part(rank).begin) -
                                                   static_cast<std::ptrdiff_t>(part(from).begin));
        return;
      case Goal::barrier: return;
    }
  }

  void expect_input(int rank, Range range, int owner, std::ptrdiff_t shift) {
    for (std::size_t at = range.begin; const auto& piece : state(rank).holds.read(range)) {
      if (piece.value != static_cast<std::size_t>(owner))
        find("rank {} elements {}: wrong result; got {}, expected the input of {}rank {}", rank,
             text({at, at + piece.size}), inputs(piece.value), has_root(goal_) ? "root " : "", owner);
      else if (piece.shift != shift)
        find("rank {} elements {}: wrong result; got elements {} of rank {}, expected its elements {}", rank,
             text({at, at + piece.size}), origin(at, piece), owner, origin(at, {piece.size, piece.value, shift}));
      at += piece.size;
    }
  }

  /// As `reference` holds it, with everyone's input in it once.
  void expect_reduced(int rank, Range range, int reference) {
    zip(range.begin, state(rank).holds.read(range), state(reference).holds.read(range),
        [&](std::size_t at, const Piece& ours, const Piece& theirs) {
          const Range here{at, at + ours.size};
          if (ours.value == kNothing || ours.shift != 0) {
            find("rank {} elements {}: wrong result; got {}, expected each of {} ranks' input once", rank, text(here),
                 ours.value == kNothing ? "nothing" : "elements " + origin(at, ours), shape_.ranks);
            return;
          }
          const auto& uses = expressions_.uses(ours.value);
          if (std::any_of(uses.begin(), uses.end(), [](std::size_t times) { return times != 1; }))
            find("rank {} elements {}: wrong result; got {}, expected each of {} ranks' input once", rank, text(here),
                 inputs(ours.value), shape_.ranks);
          else if (ours.value != theirs.value)
            find("rank {} elements {}: reduced in another order than on rank {}; expected the same bits everywhere", rank,
                 text(here), reference);
        });
  }

  std::string inputs(std::size_t value) const {
    if (value == kNothing) return "nothing";
    std::string out;
    const auto& uses = expressions_.uses(value);
    for (std::size_t rank = 0; rank < uses.size(); ++rank)
      if (uses[rank] == 1)
        out += fmt::format("{}rank {}", out.empty() ? "" : " + ", rank);
      else if (uses[rank] > 1)
        out += fmt::format("{}{} x rank {}", out.empty() ? "" : " + ", uses[rank], rank);
    return out;
  }

  void check_barrier() {
    for (int rank = 0; rank < shape_.ranks; ++rank)
      for (int other = 0; other < shape_.ranks; ++other)
        if (!state(rank).heard[static_cast<std::size_t>(other)])
          find("rank {} may leave the barrier before rank {} enters it; expected its end after every beginning", rank,
               other);
  }

  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  CollectiveShape shape_;
  Goal goal_;
  Expressions expressions_;
  std::vector<Schedule> schedules_;
  std::vector<RankState> states_;
  std::vector<std::string> findings_;
};

}  // namespace

std::vector<std::string> verify(const Algorithm& algorithm, const CollectiveShape& shape, Goal goal) {
  return Verifier(algorithm, shape, goal).run();
}

}  // namespace ddl
