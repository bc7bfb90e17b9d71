#include <algorithm>
#include <map>
#include <utility>

#include "ddl/core/error.h"
#include "ddl/plan/schedule.h"

// Vocabulary. An *atom* is a run of elements that no range of any step divides, so every element of it has the same
// history: 10^8 elements cost as much as the algorithm has slices. A *value* is an expression over the ranks'
// inputs: a leaf (one rank's input) or op(ours, theirs). Equal expressions share one number, so "the same bits on
// every rank" is the comparison of two integers.

namespace ddl {
namespace {

constexpr std::size_t kMostFindings = 16;

std::string text(Range range) { return fmt::format("[{}, {})", range.begin, range.end); }

const char* verb(StepKind kind) {
  switch (kind) {
    case StepKind::send: return "send";
    case StepKind::receive: return "receive";
    case StepKind::reduce: return "reduce";
  }
  return "?";
}

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
  std::size_t combine(std::size_t ours, std::size_t theirs) {
    const auto [found, fresh] = known_.try_emplace({ours, theirs}, uses_.size());
    if (fresh) {
      auto sum = uses_[ours];
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += uses_[theirs][i];
      uses_.push_back(std::move(sum));
    }
    return found->second;
  }
  const std::vector<std::size_t>& uses(std::size_t value) const { return uses_[value]; }

 private:
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> known_;
  std::vector<std::vector<std::size_t>> uses_;
};

class Verifier {
 public:
  Verifier(const Algorithm& algorithm, const CollectiveShape& shape) : shape_(shape), expressions_(shape.ranks) {
    for (int rank = 0; rank < shape.ranks; ++rank) schedules_.push_back(algorithm(rank, shape));
  }

  std::vector<std::string> run(Goal goal) {
    check_form();
    if (!findings_.empty()) return std::move(findings_);
    cut_into_atoms();
    check_overlaps();
    simulate();
    // What a rank holds means nothing where the messages did not go through.
    if (!findings_.empty()) return std::move(findings_);
    if (goal == Goal::barrier)
      check_barrier();
    else
      check_result(goal);
    return std::move(findings_);
  }

 private:
  struct RankState {
    std::size_t round = 0;
    std::vector<bool> complete;       // of the round's steps
    std::vector<std::size_t> values;  // by atom
    std::vector<bool> heard;          // whose beginnings came before this moment
    std::vector<bool> heard_at_start; // … before the start of the round: what its messages carry
  };

  template <typename... Args>
  void find(fmt::format_string<Args...> format, Args&&... args) {
    if (findings_.size() < kMostFindings) findings_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  void check_form() {
    for (int rank = 0; rank < shape_.ranks; ++rank) {
      const auto& schedule = schedules_[static_cast<std::size_t>(rank)];
      if (schedule.rank != rank || schedule.ranks != shape_.ranks || schedule.elements != shape_.elements)
        find("rank {}: the schedule is another's; got rank {} of {} with {} elements, expected {} of {} with {}", rank,
             schedule.rank, schedule.ranks, schedule.elements, rank, shape_.ranks, shape_.elements);
      for (std::size_t round = 0; round < schedule.rounds.size(); ++round)
        for (const auto& step : schedule.rounds[round]) {
          if (step.peer < 0 || step.peer >= shape_.ranks || step.peer == rank)
            find("rank {} round {}: {} has no such peer; got {}, expected another rank of {}", rank, round,
                 verb(step.kind), step.peer, shape_.ranks);
          if (step.range.begin > step.range.end || step.range.end > shape_.elements)
            find("rank {} round {}: {} peer {} out of the buffer; got {}, expected within [0, {})", rank, round,
                 verb(step.kind), step.peer, text(step.range), shape_.elements);
        }
    }
  }

  void cut_into_atoms() {
    cuts_ = {0, shape_.elements};
    for (const auto& schedule : schedules_)
      for (const auto& round : schedule.rounds)
        for (const auto& step : round) {
          cuts_.push_back(step.range.begin);
          cuts_.push_back(step.range.end);
        }
    std::sort(cuts_.begin(), cuts_.end());
    cuts_.erase(std::unique(cuts_.begin(), cuts_.end()), cuts_.end());
  }

  std::size_t atom_at(std::size_t element) const {
    return static_cast<std::size_t>(std::lower_bound(cuts_.begin(), cuts_.end(), element) - cuts_.begin());
  }

  void check_overlaps() {
    for (const auto& schedule : schedules_)
      for (std::size_t round = 0; round < schedule.rounds.size(); ++round) {
        const auto& steps = schedule.rounds[round];
        for (std::size_t i = 0; i < steps.size(); ++i)
          for (std::size_t j = i + 1; j < steps.size(); ++j) {
            const bool writes = steps[i].kind != StepKind::send || steps[j].kind != StepKind::send;
            if (writes && overlap(steps[i].range, steps[j].range))
              find("rank {} round {}: {} {} peer {} overlaps {} {} peer {}; expected a written range to be used once",
                   schedule.rank, round, verb(steps[i].kind), text(steps[i].range), steps[i].peer, verb(steps[j].kind),
                   text(steps[j].range), steps[j].peer);
          }
      }
  }

  const Round* current(int rank) const {
    const auto& rounds = schedules_[static_cast<std::size_t>(rank)].rounds;
    const std::size_t at = states_[static_cast<std::size_t>(rank)].round;
    return at < rounds.size() ? &rounds[at] : nullptr;
  }

  void enter_round(RankState& state, int rank) {
    state.heard_at_start = state.heard;
    const Round* round = current(rank);
    state.complete.assign(round != nullptr ? round->size() : 0, false);
  }

  /// The first step of `rank`'s round that takes from (or, where `sends`, gives to) `peer` and is not complete.
  std::size_t pending(int rank, int peer, bool sends) const {
    const Round* round = current(rank);
    if (round == nullptr) return kNone;
    for (std::size_t i = 0; i < round->size(); ++i)
      if ((*round)[i].peer == peer && ((*round)[i].kind == StepKind::send) == sends &&
          !states_[static_cast<std::size_t>(rank)].complete[i])
        return i;
    return kNone;
  }

  void simulate() {
    states_.resize(schedules_.size());
    for (int rank = 0; rank < shape_.ranks; ++rank) {
      auto& state = states_[static_cast<std::size_t>(rank)];
      state.values.assign(cuts_.size() - 1, static_cast<std::size_t>(rank));
      state.heard.assign(schedules_.size(), false);
      state.heard[static_cast<std::size_t>(rank)] = true;
      enter_round(state, rank);
    }
    for (bool moved = true; moved;) {
      moved = false;
      for (int rank = 0; rank < shape_.ranks; ++rank) moved |= advance(rank);
    }
    report_stuck();
  }

  /// Delivers what `rank` sends and its peers are ready to take; goes to the next round where that completes one.
  bool advance(int rank) {
    auto& state = states_[static_cast<std::size_t>(rank)];
    const Round* round = current(rank);
    if (round == nullptr) return false;
    bool moved = false;
    for (const auto& step : *round) {
      if (step.kind != StepKind::send) continue;
      const std::size_t out = pending(rank, step.peer, true);
      const std::size_t in = pending(step.peer, rank, false);
      if (out == kNone || in == kNone) continue;
      deliver(rank, (*round)[out], step.peer, (*current(step.peer))[in]);
      state.complete[out] = true;
      states_[static_cast<std::size_t>(step.peer)].complete[in] = true;
      moved = true;
    }
    if (std::find(state.complete.begin(), state.complete.end(), false) == state.complete.end()) {
      ++state.round;
      enter_round(state, rank);
      moved = true;
    }
    return moved;
  }

  void deliver(int from, const Step& out, int to, const Step& in) {
    const auto& sender = states_[static_cast<std::size_t>(from)];
    auto& receiver = states_[static_cast<std::size_t>(to)];
    if (out.range.size() != in.range.size())
      find("rank {} round {}: {} from rank {} has another length; got {} elements (its round {}), expected {}", to,
           receiver.round, verb(in.kind), from, out.range.size(), sender.round, in.range.size());
    else if (out.range != in.range && in.range.size() != 0)
      find("rank {} round {}: {} from rank {} is of other elements; got {} (its round {}), expected {}", to,
           receiver.round, verb(in.kind), from, text(out.range), sender.round, text(in.range));
    else
      for (std::size_t atom = atom_at(in.range.begin); atom < atom_at(in.range.end); ++atom) {
        const std::size_t theirs = sender.values[atom];
        auto& ours = receiver.values[atom];
        ours = in.kind == StepKind::reduce ? expressions_.combine(ours, theirs) : theirs;
      }
    for (std::size_t i = 0; i < receiver.heard.size(); ++i)
      if (sender.heard_at_start[i]) receiver.heard[i] = true;
  }

  void report_stuck() {
    for (int rank = 0; rank < shape_.ranks; ++rank) {
      const Round* round = current(rank);
      if (round == nullptr) continue;
      const auto& state = states_[static_cast<std::size_t>(rank)];
      for (std::size_t i = 0; i < round->size(); ++i) {
        if (state.complete[i]) continue;
        const auto& step = (*round)[i];
        if (current(step.peer) == nullptr)
          find("rank {} round {}: {} {} peer {} is unmatched; got the end of rank {}'s schedule, expected a counterpart",
               rank, state.round, verb(step.kind), text(step.range), step.peer, step.peer);
        else
          find("deadlock: rank {} round {} waits to {} {} peer {}; got rank {} waiting in its round {}, expected its "
               "counterpart",
               rank, state.round, verb(step.kind), text(step.range), step.peer, step.peer,
               states_[static_cast<std::size_t>(step.peer)].round);
      }
    }
  }

  void check_result(Goal goal) {
    for (std::size_t atom = 0; atom + 1 < cuts_.size(); ++atom)
      for (int rank = 0; rank < shape_.ranks; ++rank) {
        const std::size_t value = states_[static_cast<std::size_t>(rank)].values[atom];
        const Range range{cuts_[atom], cuts_[atom + 1]};
        if (goal == Goal::broadcast) {
          if (value != static_cast<std::size_t>(shape_.root))
            find("rank {} elements {}: wrong result; got {}, expected the input of root {}", rank, text(range),
                 inputs(value), shape_.root);
          continue;
        }
        const auto& uses = expressions_.uses(value);
        if (std::any_of(uses.begin(), uses.end(), [](std::size_t times) { return times != 1; }))
          find("rank {} elements {}: wrong result; got {}, expected each of {} ranks' input once", rank, text(range),
               inputs(value), shape_.ranks);
        else if (value != states_[0].values[atom])
          find("rank {} elements {}: reduced in another order than on rank 0; expected the same bits everywhere", rank,
               text(range));
      }
  }

  std::string inputs(std::size_t value) const {
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
        if (!states_[static_cast<std::size_t>(rank)].heard[static_cast<std::size_t>(other)])
          find("rank {} may leave the barrier before rank {} enters it; expected its end after every beginning", rank,
               other);
  }

  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  CollectiveShape shape_;
  Expressions expressions_;
  std::vector<Schedule> schedules_;
  std::vector<std::size_t> cuts_;
  std::vector<RankState> states_;
  std::vector<std::string> findings_;
};

}  // namespace

std::vector<std::string> verify(const Algorithm& algorithm, const CollectiveShape& shape, Goal goal) {
  return Verifier(algorithm, shape).run(goal);
}

}  // namespace ddl
