#include "ddl/predict/simulate.h"

#include <algorithm>
#include <limits>

#include "ddl/core/error.h"

namespace ddl {
namespace {

enum class Phase : std::uint8_t {
  entered,  ///< waits until all that it takes is offered
  works,
  worked,   ///< waits until all that it sent is taken
  over,
};

struct Rank {
  std::size_t round = 0;
  Phase phase = Phase::entered;
  double left = 0;       ///< s of its own work, alone on a core
  double on_wire = 0;    ///< bytes that its host's link still has to bring
  double began = 0;
};

class Simulation {
 public:
  Simulation(const ScheduleGroup& group, const UnitCosts& costs, const SharedMachine& machine)
      : group_(group), costs_(costs), machine_(machine), ranks_(group.ranks.size()) {
    if (!machine.hosts.empty() && machine.hosts.size() != ranks_.size())
      throw Error(Code::invalid_argument, fmt::format("[simulate] hosts; got {}, expected one of each of {} ranks", machine.hosts.size(), ranks_.size()));
    for (const auto& rounds : group.ranks) worked_.emplace_back(rounds.size(), false);
  }

  Simulated run() {
    Simulated result;
    result.bytes_sent = group_.bytes_sent;
    for (;;) {
      while (settle()) {
      }
      const double step = until_next();
      if (step == std::numeric_limits<double>::infinity()) break;
      pass(step, result);
    }
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      if (ranks_[rank].phase != Phase::over)
        throw Error(Code::invalid_argument, fmt::format("[simulate] rank {} waits in round {} for ever", rank, ranks_[rank].round));
    result.seconds = now_;
    return result;
  }

 private:
  bool offered(const RoundOf& sender) const {
    const auto& rank = ranks_[static_cast<std::size_t>(sender.rank)];
    return rank.phase == Phase::over || rank.round >= static_cast<std::size_t>(sender.round);
  }
  bool taken(const RoundOf& taker) const { return worked_[static_cast<std::size_t>(taker.rank)][static_cast<std::size_t>(taker.round)]; }

  /// Every change of phase that takes no time; whether there was one.
  bool settle() {
    bool moved = false;
    for (std::size_t number = 0; number < ranks_.size(); ++number) {
      auto& rank = ranks_[number];
      const auto& rounds = group_.ranks[number];
      if (rank.phase != Phase::over && rank.round == rounds.size()) {
        rank.phase = Phase::over;
        moved = true;
      }
      if (rank.phase == Phase::over) continue;
      const auto& round = rounds[rank.round];
      if (rank.phase == Phase::entered && std::all_of(round.from.begin(), round.from.end(), [&](const auto& from) { return offered(from); })) {
        rank.phase = Phase::works;
        rank.left = costs_.seconds(round.counts);
        rank.on_wire = from_other_hosts(number, round);
        rank.began = now_;
        moved = true;
      }
      if (rank.phase == Phase::worked && std::all_of(round.to.begin(), round.to.end(), [&](const auto& to) { return taken(to); })) {
        rank.phase = Phase::entered;
        ++rank.round;
        moved = true;
      }
    }
    return moved;
  }

  /// Bytes. What a link carries out is what another host's carries in.
  double from_other_hosts(std::size_t rank, const RoundWork& round) const {
    if (machine_.hosts.empty() || machine_.link <= 0) return 0;
    double bytes = 0;
    for (const auto& sender : round.from)
      if (machine_.hosts[static_cast<std::size_t>(sender.rank)] != machine_.hosts[rank]) bytes += static_cast<double>(sender.bytes);
    return bytes;
  }

  /// The share of a core that each working rank has now.
  double speed() const {
    if (machine_.cores <= 0) return 1;
    const auto busy = std::count_if(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.phase == Phase::works && rank.left > 0; });
    return busy <= machine_.cores ? 1.0 : static_cast<double>(machine_.cores) / static_cast<double>(busy);
  }

  /// Bytes/s that each rank of this one's host has of its link now.
  double rate(std::size_t number) const {
    int sharing = 0;
    for (std::size_t other = 0; other < ranks_.size(); ++other)
      if (machine_.hosts[other] == machine_.hosts[number] && ranks_[other].phase == Phase::works && ranks_[other].on_wire > 0) ++sharing;
    return machine_.link / sharing;
  }

  double until_next() const {
    double least = std::numeric_limits<double>::infinity();
    const double share = speed();
    for (std::size_t number = 0; number < ranks_.size(); ++number) {
      const auto& rank = ranks_[number];
      if (rank.phase != Phase::works) continue;
      double needs = rank.left / share;
      if (rank.on_wire > 0 && needs <= 0) needs = rank.on_wire / rate(number);
      else if (rank.on_wire > 0) needs = std::min(needs, rank.on_wire / rate(number));
      least = std::min(least, needs);
    }
    return least;
  }

  void pass(double step, Simulated& result) {
    // What rounding leaves of a task that should be over.
    constexpr double kNothing = 1e-15;
    const double share = speed();
    std::vector<double> rates(ranks_.size(), 0);
    for (std::size_t number = 0; number < ranks_.size(); ++number)
      if (ranks_[number].phase == Phase::works && ranks_[number].on_wire > 0) rates[number] = rate(number);
    now_ += step;
    for (std::size_t number = 0; number < ranks_.size(); ++number) {
      auto& rank = ranks_[number];
      if (rank.phase != Phase::works) continue;
      rank.left = std::max(0.0, rank.left - step * share);
      if (rank.left < kNothing) rank.left = 0;
      if (rank.on_wire > 0) {
        rank.on_wire -= step * rates[number];
        if (rank.on_wire < 1e-6) rank.on_wire = 0;
      }
      if (rank.left > 0 || rank.on_wire > 0) continue;
      rank.phase = Phase::worked;
      worked_[number][rank.round] = true;
      result.spans.push_back({static_cast<int>(number), static_cast<int>(rank.round), rank.began, now_});
    }
  }

  const ScheduleGroup& group_;
  const UnitCosts& costs_;
  const SharedMachine& machine_;
  std::vector<Rank> ranks_;
  std::vector<std::vector<bool>> worked_;
  double now_ = 0;
};

}  // namespace

Simulated simulate(const ScheduleGroup& group, const UnitCosts& costs, const SharedMachine& machine) {
  return Simulation(group, costs, machine).run();
}

}  // namespace ddl
